"""The feed-forward layer with fewer arrays: no stored mask, and no new array for each step inside.

Between the two products, bias, activation and dropout are computed in place, in one pass over blocks that
fit into the CPU cache. Of the hidden layer only the second product's operand is kept, and the slope
that multiplies its gradient. For ReLU the slope is 1 exactly where the operand is not 0, so nothing
more is kept; for GELU it is Φ(h) + h·φ(h) where h was not dropped.
Dropout's scale s is applied after the product, to the narrower array: y = s·(kept W₂) + b₂, and
backward applies it to dy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, column_sums, row_blocks
from npformer.backend.numpy.gelu import gelu_and_slope
from npformer.backend.numpy.gradients import expect_gradients
from npformer.backend.numpy.philox import kept
from npformer.backend.workspace import empty
from npformer.functional.feed_forward import expect_activation
from npformer.functional.linear import expect_linear
from npformer.functional.philox import Draw
from npformer.typing import Array, HostArray


class FeedForwardCache(NamedTuple):
    x: Array  # (..., C)
    hidden: Array  # (..., F)  act(h)·keep, the operand of w2
    slope: Array | None  # (..., F)  act'(h)·keep; None for ReLU: 1 where hidden is not 0
    scale: float  # s
    w1: Array  # (C, F)
    w2: Array  # (F, C)


def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, activation: str, draw: Draw | None
) -> tuple[Array, FeedForwardCache]:
    """As the plain kernel: x (..., C) by w1 (C, F), b1 (F,), the activation, w2 (F, C), b2 (C,). Returns y (..., C)."""
    expect_activation(activation)
    expect_linear(x, w1, b1)
    hidden = empty((*x.shape[:-1], w1.shape[1]), x.dtype)
    expect_linear(hidden, w2, b2)
    slope = empty(hidden.shape, x.dtype) if activation == "gelu" else None
    keep, scale = kept(draw, hidden)
    np.matmul(as_matrix(x), w1, out=as_matrix(hidden))
    _activate(hidden, b1, keep, slope)
    y: Array = empty((*x.shape[:-1], w2.shape[1]), x.dtype)
    np.matmul(as_matrix(hidden), w2, out=as_matrix(y))
    if keep is not None:
        y *= scale
    y += b2
    return y, FeedForwardCache(x, hidden, slope, scale, w1, w2)


def feed_forward_backward(dy: Array, cache: FeedForwardCache) -> tuple[Array, ...]:
    """As the plain kernel: gradients (dx (..., C), dw1 (C, F), db1 (F,), dw2 (F, C), db2 (C,))."""
    x, hidden, slope, scale, w1, w2 = cache
    expect_gradients(dy, (*x.shape[:-1], w2.shape[1]))
    x_rows, hidden_rows, dy_rows = as_matrix(x), as_matrix(hidden), as_matrix(dy)
    scaled = dy_rows if scale == 1 else np.multiply(dy_rows, scale, out=empty(dy_rows.shape, x.dtype))
    dw2 = np.matmul(hidden_rows.T, scaled, out=empty(w2.shape, x.dtype))
    dh = np.matmul(scaled, w2.T, out=empty(hidden_rows.shape, x.dtype))
    for rows in row_blocks(*dh.shape):
        dh[rows] *= hidden_rows[rows] != 0 if slope is None else as_matrix(slope)[rows]
    dw1 = np.matmul(x_rows.T, dh, out=empty(w1.shape, x.dtype))
    dx = empty(x.shape, x.dtype)
    np.matmul(dh, w1.T, out=as_matrix(dx))
    return dx, dw1, column_sums(dh), dw2, column_sums(dy_rows)


def _activate(hidden: Array, bias: Array, keep: HostArray | None, slope: Array | None) -> None:
    """Turn x W₁ (..., F) into act(x W₁ + b₁)·keep, in place, and write act'·keep into slope (..., F)."""
    hidden_rows = as_matrix(hidden)
    for rows in row_blocks(*hidden_rows.shape):
        h = hidden_rows[rows]
        h += bias
        passed = None if keep is None else as_matrix(keep)[rows]
        if slope is None:
            is_open = h > 0
            if passed is not None:
                is_open &= passed
            h *= is_open
            continue
        block = as_matrix(slope)[rows]
        gelu_and_slope(h, h, block)
        if passed is not None:
            h *= passed
            block *= passed
