"""Dropout with its random decisions given, unlike npformer's, which draws them: a learner's forward is repeatable."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.typing import Array


def dropout_forward(x: Array, keep: Array | None, scale: float) -> tuple[Array, Any]:
    """x (...), keep boolean like x, scale = 1/(1 − rate). Returns y (...) and a cache.

    keep None: nothing is dropped and nothing scaled.
    """
    if keep is None:
        keep, scale = True, 1.0
    return np.where(keep, x * scale, 0.0), (keep, scale)


def dropout_backward(dy: Array, cache: Any) -> Array:
    """dy (...). Returns dx (...)."""
    keep, scale = cache
    return np.where(keep, dy * scale, 0.0)
