"""Kernels in low precision, right and wrong, that the gradient check is scored on."""
