"""The normalisation layer, alone or together with the residual sum it stands next to."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.functional import Draw
from npformer.layers.cache_stack import CacheStack
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array


class LayerNorm(Layer):
    """Normalises x (..., C) over C; γ starts at 1, β at 0. eps 1e-5 is added inside the root.

    What is said of the other tokens (``about_tokens`` in norms.py) makes no difference: each has its own statistics.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5, backend: Backend) -> None:
        super().__init__(backend)
        self.gamma = Parameter("gamma", backend.array(np.ones(d_model)))
        self.beta = Parameter("beta", backend.array(np.zeros(d_model)))
        self.eps = eps

    def _grads(self) -> tuple[Array, Array]:
        return self.gamma.grad, self.beta.grad

    def forward(self, x: Array, **about_tokens: Any) -> tuple[Array, CacheStack]:
        """x (..., C) to y (..., C)."""
        cache = CacheStack(self)
        return cache.keep(self.ops.layer_norm.forward(x, self.gamma.data, self.beta.data, self.eps)), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (..., C) to dx (..., C)."""
        return self.ops.layer_norm.backward(dy, cache.pop(), into=self._grads())

    def post_forward(self, x: Array, f: Array, draw: Draw | None, **about_tokens: Any) -> tuple[Array, CacheStack]:
        """Post-LN: LayerNorm(x + Drop(f)) for the stream x and a sub-layer's output f, both (..., C)."""
        cache = CacheStack(self)
        pair = self.ops.post_norm
        return cache.keep(pair.forward(x, f, self.gamma.data, self.beta.data, self.eps, draw)), cache

    def post_backward(self, dy: Array, cache: CacheStack) -> tuple[Array, Array]:
        """dy (..., C) to (dx, df), both (..., C)."""
        dx, df = self.ops.post_norm.backward(dy, cache.pop(), into=self._grads())
        return dx, df

    def pre_forward(
        self, x: Array, f: Array, draw: Draw | None, **about_tokens: Any
    ) -> tuple[tuple[Array, Array], CacheStack]:
        """Pre-LN: (sum, normed) with sum = x + Drop(f), the stream, and normed for the next sub-layer."""
        cache = CacheStack(self)
        pair = self.ops.add_norm
        return cache.keep(pair.forward(x, f, self.gamma.data, self.beta.data, self.eps, draw)), cache

    def pre_backward(self, dsum: Array, dnormed: Array, cache: CacheStack) -> tuple[Array, Array]:
        """dsum and dnormed to (dx, df), all (..., C)."""
        dx, df = self.ops.add_norm.backward((dsum, dnormed), cache.pop(), into=self._grads())
        return dx, df
