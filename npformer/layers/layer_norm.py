"""The LayerNorm layer, which owns γ and β. One kernel may compute it and the residual sum: see ``residual.py``."""

from __future__ import annotations

import numpy as np

from npformer.backend import Backend
from npformer.layers.cache_stack import CacheStack
from npformer.layers.layer import Layer
from npformer.layers.parameter import Parameter
from npformer.typing import Array


class LayerNorm(Layer):
    """Normalises x (..., C) over C; γ starts at 1, β at 0. eps 1e-5 is added inside the root."""

    static = True

    def __init__(self, d_model: int, *, eps: float = 1e-5, backend: Backend) -> None:
        super().__init__(backend)
        self.gamma = Parameter("gamma", backend.array(np.ones(d_model)))
        self.beta = Parameter("beta", backend.array(np.zeros(d_model)))
        self.eps = eps

    def forward(self, x: Array) -> tuple[Array, CacheStack]:
        """x (..., C) to y (..., C)."""
        cache = CacheStack(self)
        return cache.keep(self.ops.layer_norm.forward(x, self.gamma.data, self.beta.data, self.eps)), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (..., C) to dx (..., C)."""
        return self.ops.layer_norm.backward(dy, cache.pop(), into=(self.gamma.grad, self.beta.grad))
