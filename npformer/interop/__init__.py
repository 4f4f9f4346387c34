"""Other programs: weights under their names (``npf.interop.torch`` needs no PyTorch), and gradients of their code."""

from npformer.interop import torch
from npformer.interop.jax_pair import from_jax
from npformer.interop.torch_pair import from_torch

__all__ = ["from_jax", "from_torch", "torch"]
