"""Kernels that deserve a verdict, and how the judge of kernels does on them."""
