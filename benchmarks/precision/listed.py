"""All kernels of the list; those of PyTorch only where it is installed."""

from benchmarks.precision import (
    below,
    right_activations,
    right_attention,
    right_norms,
    right_products,
    right_softmax,
    right_torch,
    wrong_activations,
    wrong_attention,
    wrong_norms,
    wrong_products,
    wrong_softmax,
)

THEMES = (
    right_torch,
    right_softmax,
    right_norms,
    right_products,
    right_attention,
    right_activations,
    wrong_softmax,
    wrong_norms,
    wrong_products,
    wrong_attention,
    wrong_activations,
    below,
)
KERNELS = tuple(kernel for theme in THEMES for kernel in theme.KERNELS)
