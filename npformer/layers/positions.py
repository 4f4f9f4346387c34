"""Position encodings: layers that add them to x, and parts of attention that rotate q and k, or add to the scores.

Sines and cosines, and rotations (RoPE), have no parameters and no last position; a table of positions, and T5's biases
by distance, are learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend import Backend, Ops
from npformer.functional.relative_bias import expect_buckets
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initializers import Seed, scaled_normal
from npformer.layers.layer import Layer
from npformer.layers.owner import Owner
from npformer.layers.parameter import Parameter
from npformer.typing import Array


class SinusoidalPositions(Layer):
    """Adds sines and cosines of the position to x (B, T, C)."""

    static = True

    def forward(self, x: Array, offset: int = 0) -> tuple[Array, CacheStack]:
        """x (B, T, C), its first token at position offset, to y (B, T, C)."""
        return self.kept(self.ops.sinusoidal_positions.forward(x, offset))

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
        return self.kept(self.ops.learned_positions.forward(x, self.weight.data, offset))

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (B, T, C) to dx (B, T, C)."""
        return self.ops.learned_positions.backward(dy, cache.pop(), into=(self.weight.grad,))


class Rotary(Owner):
    """Rotates the heads (B, H, T, D) of queries and keys by their position; D must be even."""

    static = True

    def __init__(self, base: float = 10000.0) -> None:
        self.base = base

    def forward(self, ops: Ops, x: Array, start: int = 0) -> tuple[Array, Any]:
        """x (B, H, T, D), its tokens at start, start + 1, …, to y (B, H, T, D)."""
        return ops.rotary.forward(x, start, self.base)

    def backward(self, ops: Ops, dy: Array, cache: Any) -> Array:
        """dy (B, H, T, D) to dx (B, H, T, D)."""
        return ops.rotary.backward(dy, cache)


class RelativeBias(Layer):
    """The bias (H, T, S) that attention adds to its scores. Starts normal, standard deviation 0.02.

    causal: there are no later keys. Raises ConfigError for an impossible number of buckets.
    """

    static = True

    def __init__(
        self,
        num_heads: int,
        *,
        causal: bool = False,
        num_buckets: int = 32,
        max_distance: int = 128,
        backend: Backend,
        seed: Seed = 0,
    ) -> None:
        super().__init__(backend)
        expect_buckets(num_buckets, causal, max_distance)
        table = np.random.default_rng(seed).normal(0.0, 0.02, (num_buckets, num_heads))
        self.weight = Parameter("weight", backend.array(table))
        self.causal = causal
        self.max_distance = max_distance

    def forward(self, queries: int, keys: int, query_offset: int = 0) -> tuple[Array, CacheStack]:
        """The bias (H, T, S) of T queries, at positions query_offset on, and S keys."""
        pair, table = self.ops.relative_bias, self.weight.data
        return self.kept(pair.forward(table, queries, keys, query_offset, self.causal, self.max_distance))

    def backward(self, dbias: Array, cache: CacheStack) -> None:
        """Adds to the table's gradient, given dbias (H, T, S)."""
        self.ops.relative_bias.backward(dbias, cache.pop(), into=(self.weight.grad,))
