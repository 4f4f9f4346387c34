"""Pre-LN: finish one residual sum and normalise it for the next sub-layer."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.layer_norm import layer_norm_backward, layer_norm_forward
from npformer.lab.grader.parts.residual import residual_backward, residual_forward
from npformer.typing import Array


def add_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, keep: Array | None = None, scale: float = 1.0
) -> tuple[tuple[Array, Array], Any]:
    """x and f (..., C), gamma and beta (C,), keep and scale of the dropout on f.

    Returns ((total, normed), cache): two outputs, both (..., C); the stream runs on as total.
    """
    total, residual_cache = residual_forward(x, f, keep, scale)  # 1. (..., C)
    normed, norm_cache = layer_norm_forward(total, gamma, beta)  # 2. (..., C)
    return (total, normed), (residual_cache, norm_cache)


def add_norm_backward(dy: tuple[Array, Array], cache: Any) -> tuple[Array, Array, Array, Array]:
    """dy = (dtotal, dnormed), both (..., C). Returns (dx (..., C), df (..., C), dgamma (C,), dbeta (C,))."""
    dtotal, dnormed = dy
    residual_cache, norm_cache = cache
    through_norm, dgamma, dbeta = layer_norm_backward(dnormed, norm_cache)  # back through 2
    dx, df = residual_backward(dtotal + through_norm, residual_cache)  # back through 1: total was used twice
    return dx, df, dgamma, dbeta
