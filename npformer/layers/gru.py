"""The gated recurrent unit (GRU) as a layer: a recurrent network, as used before attention."""

from __future__ import annotations

import math

import numpy as np

from npformer.backend import Backend
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array


class Gru(Layer):
    """Reads x (B, T, C_in), one token after the other; C is d_model. All parameters start uniform in ±1/√C."""

    static = True

    causal = True

    def __init__(self, c_in: int, d_model: int, *, backend: Backend, seed: Seed = 0) -> None:
        super().__init__(backend)
        rng, limit = np.random.default_rng(seed), 1 / math.sqrt(d_model)

        def uniform(name: str, *shape: int) -> Parameter:
            return Parameter(name, backend.array(rng.uniform(-limit, limit, shape)))

        self.d_model = d_model
        self.weight = uniform("weight", c_in, 3 * d_model)
        self.bias = uniform("bias", 3 * d_model)
        self.recurrent = uniform("recurrent", d_model, 3 * d_model)
        self.recurrent_bias = uniform("recurrent_bias", 3 * d_model)

    def forward(
        self, x: Array, start: Array | None = None, *, visible: Array | None = None
    ) -> tuple[Array, CacheStack]:
        """x (B, T, C_in), from the state start (B, C) on (None: zeros), to y (B, T, C).

        visible (B, T) is False at padding, where the state stays unchanged.
        """
        start = self.backend.zeros((x.shape[0], self.d_model)) if start is None else start
        parameters = (self.weight.data, self.bias.data, self.recurrent.data, self.recurrent_bias.data)
        return self.kept(self.ops.gru.forward(x, start, *parameters, visible))

    def backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        """dy (B, T, C) to (dx (B, T, C_in), dstart (B, C))."""
        into = (self.weight.grad, self.bias.grad, self.recurrent.grad, self.recurrent_bias.grad)
        dx, dstart = self.ops.gru.backward(dy, cache.pop(), into=into)
        return dx, dstart
