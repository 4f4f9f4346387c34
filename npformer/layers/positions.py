"""Position encodings as layers: sinusoidal, without parameters or a last position, or a learned table."""

from __future__ import annotations

from npformer.backend import Backend
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initializers import Seed, scaled_normal
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array


class SinusoidalPositions(Layer):
    """Adds sines and cosines of the position to x (B, T, C)."""

    static = True

    def forward(self, x: Array, offset: int = 0) -> tuple[Array, CacheStack]:
        """x (B, T, C), its first token at position offset, to y (B, T, C)."""
        cache = CacheStack(self)
        return cache.keep(self.ops.sinusoidal_positions.forward(x, offset)), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, T, C) to dx (B, T, C)."""
        return self.ops.sinusoidal_positions.backward(dy, cache.pop())


class LearnedPositions(Layer):
    """Adds a learned row per position to x (B, T, C), T ≤ max_seq_len. Starts normal, standard deviation 1/√C."""

    static = True

    def __init__(self, max_seq_len: int, d_model: int, *, backend: Backend, seed: Seed = 0) -> None:
        super().__init__(backend)
        self.weight = Parameter("weight", backend.array(scaled_normal(seed, max_seq_len, d_model)))

    def forward(self, x: Array, offset: int = 0) -> tuple[Array, CacheStack]:
        """x (B, T, C), its first token at position offset, to y (B, T, C). Raises ShapeError past the table."""
        cache = CacheStack(self)
        return cache.keep(self.ops.learned_positions.forward(x, self.weight.data, offset)), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, T, C) to dx (B, T, C)."""
        return self.ops.learned_positions.backward(dy, cache.pop(), into=(self.weight.grad,))
