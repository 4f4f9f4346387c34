"""Linear map."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.typing import Array


def linear_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, Any]:
    """x (..., C_in), weight (C_in, C_out), bias (C_out,). Returns y (..., C_out) and a cache."""
    y = x @ weight + bias  # 1. (..., C_out)
    return y, (x, weight)


def linear_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array]:
    """dy (..., C_out). Returns (dx (..., C_in), dweight (C_in, C_out), dbias (C_out,)), in this order."""
    x, weight = cache
    x_rows, dy_rows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])  # (N, C_in), (N, C_out)
    dweight = np.matrix_transpose(x_rows) @ dy_rows
    dbias = np.sum(dy_rows, axis=0)
    dx = dy @ np.matrix_transpose(weight)
    return dx, dweight, dbias
