"""A layer of your own, made of npformer's layers: gated feed-forward, y = (x W_g + b_g)·relu(x W_u + b_u).

The forward keeps the caches of its parts on a stack; the backward is the forward read bottom-up. The
gradient check accepts the layer directly, and finds the mistake if one of the two paths is forgotten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import npformer as npf
from npformer.layers import CacheStack, Layer, Linear

Array = Any


class GatedFeedForward(Layer):
    """x (..., C) to y (..., F)."""

    def __init__(self, d_model: int, d_ff: int, *, backend: npf.Backend, seed: int = 0) -> None:
        super().__init__(backend)
        rng = np.random.default_rng(seed)
        self.gate = Linear(d_model, d_ff, backend=backend, seed=rng)
        self.up = Linear(d_model, d_ff, backend=backend, seed=rng)

    def forward(self, x: Array) -> tuple[Array, CacheStack]:
        """Returns y (..., F) and the cache."""
        cache = CacheStack(self)
        gate = cache.keep(self.gate.forward(x))  # 1. (..., F)
        h = cache.keep(self.up.forward(x))  # 2. (..., F)
        a = cache.keep(self.ops.relu.forward(h))  # 3.
        return cache.keep((gate * a, (gate, a))), cache  # 4.

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (..., F) to dx (..., C)."""
        gate, a = cache.pop()
        dgate, da = dy * a, dy * gate  # back through 4
        dh = self.ops.relu.backward(da, cache.pop())  # back through 3
        dx = self.up.backward(dh, cache.pop())  # back through 2
        return dx + self.gate.backward(dgate, cache.pop())  # back through 1: x was used twice


class ForgetfulFeedForward(GatedFeedForward):
    """The same layer, but its backward forgets that x was used twice."""

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (..., F) to a dx (..., C) that lacks the path through the gate."""
        gate, a = cache.pop()
        dx = self.up.backward(self.ops.relu.backward(dy * gate, cache.pop()), cache.pop())
        self.gate.backward(dy * a, cache.pop())
        return dx


def main() -> None:
    """Print both tables."""
    backend = npf.get_backend("numpy", kernels="plain")
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    for layer_class in (GatedFeedForward, ForgetfulFeedForward):
        print(f"{layer_class.__name__}:")
        print(npf.gradcheck(layer_class(4, 6, backend=backend), x), "\n")


if __name__ == "__main__":
    main()
