"""Pairs written as others write them, right and wrong, by which ``npf.gradcheck`` is scored."""
