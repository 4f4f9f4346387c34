"""Weights under other programs' names: ``npf.interop.torch`` speaks to PyTorch, and does not need it."""

from npformer.interop import torch

__all__ = ["torch"]
