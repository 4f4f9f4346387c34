"""Softmax over the visible entries of each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.typing import Array


def softmax_forward(x: Array, visible: Array | None = None) -> tuple[Array, Any]:
    """x (..., S), visible boolean and broadcastable to x (None: all). Returns y (..., S) and a cache."""
    scores = x if visible is None else np.where(visible, x, -np.inf)  # 1. a hidden entry gets weight 0
    top = np.max(scores, axis=-1, keepdims=True)  # 2. (..., 1), so that exp cannot overflow
    top = np.where(np.isfinite(top), top, 0.0)  # a row in which nothing is visible
    powers = np.exp(scores - top)  # 3. (..., S)
    total = np.sum(powers, axis=-1, keepdims=True)  # 4. (..., 1)
    y = powers / np.where(total == 0, 1.0, total)  # 5. (..., S); a row of nothing stays 0
    return y, y


def softmax_backward(dy: Array, cache: Any) -> Array:
    """dy (..., S). Returns dx (..., S)."""
    y = cache
    shared = np.sum(dy * y, axis=-1, keepdims=True)  # (..., 1)
    return y * (dy - shared)
