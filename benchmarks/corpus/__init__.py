"""Pairs as other people write them, right ones and their mistakes, and how the checks judge them."""
