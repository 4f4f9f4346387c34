"""Other libraries: weights in PyTorch's format (without PyTorch), and gradient checks of PyTorch and JAX code.

``npf.interop.torch``, the weights, is imported when it is first asked for: it needs the models, a check does not.
"""

from typing import TYPE_CHECKING

from npformer.check.adapters.jax_pair import from_jax
from npformer.check.adapters.torch_pair import from_torch

if TYPE_CHECKING:
    from npformer.interop import torch
else:

    def __getattr__(name):
        """Import the weights' module on first use."""
        if name != "torch":
            raise AttributeError(f"module 'npformer.interop' has no attribute {name!r}")
        import npformer.interop.torch as weights

        return weights


__all__ = ["from_jax", "from_torch", "torch"]
