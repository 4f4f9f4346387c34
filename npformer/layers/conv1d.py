"""One-dimensional convolution as a layer."""

from __future__ import annotations

import math

import numpy as np

from npformer.backend import Backend
from npformer.errors import whole_number
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array


class Conv1d(Layer):
    """Each output (B, T, C_out) sees kernel_size tokens around its position, or, if causal, up to it.

    Weights start uniform in ±1/√(C_in·K), the bias too. Raises ConfigError unless kernel_size >= 1.
    """

    static = True

    def __init__(
        self, c_in: int, c_out: int, kernel_size: int = 3, *, causal: bool = False, backend: Backend, seed: Seed = 0
    ) -> None:
        super().__init__(backend)
        whole_number("kernel_size", kernel_size, at_least=1)
        rng, limit = np.random.default_rng(seed), 1 / math.sqrt(c_in * kernel_size)
        self.causal = causal
        self.weight = Parameter("weight", backend.array(rng.uniform(-limit, limit, (kernel_size, c_in, c_out))))
        self.bias = Parameter("bias", backend.array(rng.uniform(-limit, limit, c_out)))

    def forward(self, x: Array) -> tuple[Array, CacheStack]:
        """x (B, T, C_in) to y (B, T, C_out)."""
        return self.kept(self.ops.conv1d.forward(x, self.weight.data, self.bias.data, self.causal))

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, T, C_out) to dx (B, T, C_in)."""
        return self.ops.conv1d.backward(dy, cache.pop(), into=(self.weight.grad, self.bias.grad))
