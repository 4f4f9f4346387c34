"""The embedding layer: owns the table of token vectors."""

from __future__ import annotations

import math

from npformer.backend import Backend
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initial import Seed, scaled_normal
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array


class Embedding(Layer):
    """Token ids (...) to vectors (..., C), scaled by √C unless scale is False. Starts normal, deviation 1/√C."""

    def __init__(self, vocab_size: int, d_model: int, *, scale: bool = True, backend: Backend, seed: Seed = 0) -> None:
        super().__init__(backend)
        self.weight = Parameter("weight", backend.array(scaled_normal(seed, vocab_size, d_model)))
        self.scale = math.sqrt(d_model) if scale else 1.0

    def forward(self, tokens: Array) -> tuple[Array, CacheStack]:
        """tokens (...), integers in [0, V), to y (..., C)."""
        cache = CacheStack(self)
        return cache.keep(self.ops.embedding.forward(tokens, self.weight.data, self.scale)), cache

    def backward(self, dy: Array, cache: CacheStack) -> None:
        """Adds to the table's gradient; token ids have none."""
        self.ops.embedding.backward(dy, cache.pop(), into=(self.weight.grad,))
