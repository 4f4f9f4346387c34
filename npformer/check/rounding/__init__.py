"""Kernels in float32 and less: what rounding explains, and what it does not."""
