"""ReLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.typing import Array


def relu_forward(x: Array) -> tuple[Array, Any]:
    """x (...). Returns y (...) and a cache."""
    is_open = x > 0
    return np.where(is_open, x, 0.0), is_open


def relu_backward(dy: Array, cache: Any) -> Array:
    """dy (...). Returns dx (...)."""
    is_open = cache
    return np.where(is_open, dy, 0.0)
