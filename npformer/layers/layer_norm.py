"""The LayerNorm layer, which owns γ and β. One kernel may compute it and the residual sum: see ``residual.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.functional import Draw
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
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

    def forward(self, x: Array, *, context: Context = INFERENCE) -> tuple[Array, CacheStack]:
        """x (..., C) to y (..., C)."""
        return self.kept(self.ops.layer_norm.forward(x, self.gamma.data, self.beta.data, self.eps))

    def backward(self, dy: Array, cache: CacheStack) -> Array:
        """dy (..., C) to dx (..., C)."""
        return self.ops.layer_norm.backward(dy, cache.pop(), into=(self.gamma.grad, self.beta.grad))

    def join(self, x: Array, f: Array, draw: Draw | None, post: bool) -> tuple[tuple[Array, Array], Any]:
        """x and f (..., C) to (total = x + Drop(f), LN(total)), by one kernel; with post both are LN(total)."""
        pair = self.ops.post_norm if post else self.ops.add_norm
        out, cache = pair.forward(x, f, self.gamma.data, self.beta.data, self.eps, draw)
        return (out, out) if post else out, cache

    def join_backward(self, dtotal: Array, dnormed: Array | None, cache: Any) -> tuple[Array, Array]:
        """The gradients of join's two outputs to dx and df (..., C); dnormed is None with post."""
        pair, dout = (self.ops.post_norm, dtotal) if dnormed is None else (self.ops.add_norm, (dtotal, dnormed))
        dx, df = pair.backward(dout, cache, into=(self.gamma.grad, self.beta.grad))
        return dx, df
