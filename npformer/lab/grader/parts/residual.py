"""Residual sum with dropout."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.dropout import dropout_backward, dropout_forward
from npformer.typing import Array


def residual_forward(x: Array, f: Array, keep: Array | None = None, scale: float = 1.0) -> tuple[Array, Any]:
    """x (..., C), the sub-layer's output f (..., C), keep and scale of its dropout. Returns y (..., C) and a cache."""
    dropped, dropout_cache = dropout_forward(f, keep, scale)  # 1.
    return x + dropped, dropout_cache  # 2.


def residual_backward(dy: Array, cache: Any) -> tuple[Array, Array]:
    """dy (..., C). Returns (dx (..., C), df (..., C)), in this order."""
    dropout_cache = cache
    df = dropout_backward(dy, dropout_cache)
    return dy, df
