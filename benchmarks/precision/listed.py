"""All kernels of the list; those of PyTorch only where it is installed."""

from benchmarks.precision import (
    right_activations,
    right_attention,
    right_norms,
    right_products,
    right_softmax,
    right_torch,
)

THEMES = (
    right_torch,
    right_softmax,
    right_norms,
    right_products,
    right_attention,
    right_activations,
)
KERNELS = tuple(kernel for theme in THEMES for kernel in theme.KERNELS)
