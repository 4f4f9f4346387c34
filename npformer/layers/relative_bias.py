"""The relative position bias of T5 as a layer: a learned number for each bucket of distances and each head."""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.functional.relative_bias import expect_buckets
from npformer.layers.cache_stack import CacheStack
from npformer.layers.initializers import Seed
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array


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
        cache = CacheStack(self)
        pair, table = self.ops.relative_bias, self.weight.data
        return cache.keep(pair.forward(table, queries, keys, query_offset, self.causal, self.max_distance)), cache

    def backward(self, dbias: Array, cache: CacheStack) -> None:
        """Adds to the table's gradient, given dbias (H, T, S)."""
        self.ops.relative_bias.backward(dbias, cache.pop(), into=(self.weight.grad,))
