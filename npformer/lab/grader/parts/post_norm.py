"""Post-LN: normalise the residual sum."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.layer_norm import layer_norm_backward, layer_norm_forward
from npformer.lab.grader.parts.residual import residual_backward, residual_forward
from npformer.typing import Array


def post_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, keep: Array | None = None, scale: float = 1.0
) -> tuple[Array, Any]:
    """x and f (..., C), gamma and beta (C,), keep and scale of the dropout on f. Returns y (..., C) and a cache."""
    total, residual_cache = residual_forward(x, f, keep, scale)  # 1. (..., C)
    y, norm_cache = layer_norm_forward(total, gamma, beta)  # 2. (..., C)
    return y, (residual_cache, norm_cache)


def post_norm_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array, Array]:
    """dy (..., C). Returns (dx (..., C), df (..., C), dgamma (C,), dbeta (C,)), in this order."""
    residual_cache, norm_cache = cache
    dtotal, dgamma, dbeta = layer_norm_backward(dy, norm_cache)  # back through 2
    dx, df = residual_backward(dtotal, residual_cache)  # back through 1
    return dx, df, dgamma, dbeta
