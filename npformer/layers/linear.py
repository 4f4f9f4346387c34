"""The linear layer, which owns a matrix and a bias."""

from __future__ import annotations

from typing import Literal

import numpy as np

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initializers import Seed, small_normal, xavier_uniform
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter, ParameterView
from npformer.typing import Array

_INITIALIZERS = {"xavier": xavier_uniform, "small": small_normal}


class Linear(Layer):
    """y = x W + b for x (..., C_in). W starts as init says: Xavier-uniform or normal with deviation 0.02; b at 0.

    weight, if given, is used (and trained) instead of a new matrix: a tied projection.
    """

    static = True

    def __init__(
        self, c_in: int, c_out: int, *, init: Literal["xavier", "small"] = "xavier", backend: Backend, seed: Seed = 0,
        weight: ParameterView | None = None,
    ) -> None:  # fmt: skip
        super().__init__(backend)
        if init not in _INITIALIZERS:
            raise ConfigError(f"init: expected one of {', '.join(_INITIALIZERS)}, got {init!r}")
        self.weight = weight or Parameter("weight", backend.array(_INITIALIZERS[init](seed, c_in, c_out)))
        self.bias = Parameter("bias", backend.array(np.zeros(c_out)))

    def forward(self, x: Array) -> tuple[Array, CacheStack]:
        """x (..., C_in) to y (..., C_out)."""
        return self.kept(self.ops.linear.forward(x, self.weight.data, self.bias.data))

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (..., C_out) to dx (..., C_in)."""
        return self.ops.linear.backward(dy, cache.pop(), into=(self.weight.grad, self.bias.grad))
