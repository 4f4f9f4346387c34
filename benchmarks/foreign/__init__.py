"""Right and wrong pairs, written as other projects write them, that score ``npf.gradcheck``."""
