"""Learned positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.typing import Array


def learned_positions_forward(x: Array, table: Array, offset: int = 0) -> tuple[Array, Any]:
    """x (B, T, C), table (P, C), offset + T <= P. Returns y (B, T, C) and a cache."""
    length = x.shape[1]
    y = x + table[offset : offset + length]  # 1. the same rows for each of the B sequences
    return y, (offset, table.shape[0])


def learned_positions_backward(dy: Array, cache: Any) -> tuple[Array, Array]:
    """dy (B, T, C). Returns (dx (B, T, C), dtable (P, C)), in this order."""
    offset, num_rows = cache
    dtable = np.zeros((num_rows, dy.shape[-1]))
    dtable[offset : offset + dy.shape[1]] = np.sum(dy, axis=0)
    return dy, dtable
