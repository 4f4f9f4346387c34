"""Other libraries: weights in PyTorch's format (without PyTorch), and gradient checks of PyTorch and JAX code."""

from npformer.interop import torch
from npformer.interop.jax_pair import from_jax
from npformer.interop.torch_pair import from_torch

__all__ = ["from_jax", "from_torch", "torch"]
