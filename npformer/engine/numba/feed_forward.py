"""The feed-forward layer: one compiled call forward and one backward.

With ReLU only the dropped activation is kept: it is 0 exactly where its gradient is 0, whether ReLU or dropout made
it 0. With GELU the input is kept as well, and backward draws the random bits again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.workspace import empty, empty_like
from npformer.engine.numba.arguments import Matrix, OutMatrix, OutRows, OutVector, Rows, Vector
from npformer.engine.numba.compiling import inlined, kernel
from npformer.engine.numba.exponential import error_function, exponential
from npformer.engine.numba.gradients import rooms, settle_rooms
from npformer.engine.numba.linear import (
    FEW_TOKENS,
    ROWS_AT_ONCE,
    add_columns,
    add_gradients,
    add_weight_gradient,
    fill_and_map,
)
from npformer.engine.numba.philox import Numbers, draw_lanes, numbers, room_for_lanes
from npformer.engine.numba.products import borrow, for_blas, product
from npformer.engine.numba.recording import few_of_step
from npformer.engine.numba.rows import as_rows, contiguous, contiguous_rows
from npformer.functional.feed_forward import expect_activation
from npformer.functional.linear import expect_linear
from npformer.functional.philox import Draw
from npformer.typing import Array

AT_ONCE = 8192


class FeedForwardCache(NamedTuple):
    x: Array  # (..., C)
    w1: Array  # (C, F)
    w2: Array  # (F, C)
    h: Array | None  # (N, F)  before the activation; None for ReLU
    a: Array  # (N, F)  after activation and dropout
    drawn: Numbers


def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, activation: str, draw: Draw | None
) -> tuple[Array, FeedForwardCache]:
    expect_activation(activation)
    expect_linear(x, w1, b1)
    hidden = empty((*x.shape[:-1], w1.shape[1]), x.dtype)
    expect_linear(hidden, w2, b2)
    drawn = numbers(draw, hidden)
    a = as_rows(hidden)  # (N, F)
    h = empty_like(a) if activation == "gelu" else None
    y = empty((*x.shape[:-1], w2.shape[1]), x.dtype)
    few = few_of_step()
    if few is not None and a.shape[0] <= FEW_TOKENS and w1.flags.c_contiguous and w2.flags.c_contiguous:
        few(contiguous_rows(x), w1, contiguous(b1), False, a if h is None else h)
        activate(a if h is None else h, h is not None, a)
        few(a, w2, contiguous(b2), h is None, as_rows(y))
        return y, FeedForwardCache(x, w1, w2, h, a, drawn)
    up_and_down(
        for_blas(as_rows(x)), for_blas(w1), contiguous(b1), for_blas(w2), contiguous(b2), h is not None, drawn,
        a if h is None else h, a, as_rows(y),
    )  # fmt: skip
    return y, FeedForwardCache(x, w1, w2, h, a, drawn)


def feed_forward_backward(dy: Array, cache: FeedForwardCache, into: Into = ()) -> Any:
    x, w1, w2, h, a, drawn = cache
    shapes = w1.shape, w1.shape[1:], w2.shape, w2.shape[1:]
    expect_gradients(dy, (*x.shape[:-1], w2.shape[1]), into, *shapes)
    dx = empty(x.shape, x.dtype)
    gradients = rooms(into, x.dtype, *shapes)
    down_and_up(
        contiguous_rows(dy), for_blas(as_rows(x)), for_blas(w1), for_blas(w2), h is not None, drawn,
        a if h is None else h, a, empty_like(a), as_rows(dx), *gradients,
    )  # fmt: skip
    return settle_rooms(dx, gradients, into)


@inlined
def relu_rows(h, bias, drawn):
    """h = Drop(relu(h + bias)), in place."""
    count, width = h.shape
    at_once = max(1, AT_ONCE // max(width, 1))
    words = room_for_lanes(at_once * width)
    lanes = borrow(words.view(np.uint16))
    limit, factor, zero = np.uint16(drawn.threshold), h.dtype.type(drawn.scale), h.dtype.type(0)
    base = 0
    for i in range(count):
        place, row = i % at_once, h[i]
        if drawn.threshold > 0 and place == 0:
            base = draw_lanes(words, drawn, i * width, min(at_once, count - i) * width)
        bits = lanes[base + place * width : base + (place + 1) * width]
        if drawn.threshold == 0:
            for j in range(width):
                value = row[j] + bias[j]
                row[j] = zero if value < zero else value  # NaN stays NaN
        else:
            for j in range(width):
                value = row[j] + bias[j]
                row[j] = zero if (value < zero) | (bits[j] < limit) else value * factor  # | has no branch


@inlined
def relu_rows_backward(da, a, scale, total):
    """da becomes the gradient before the activation, in place; its rows are added to total, if that has any room."""
    factor, zero = a.dtype.type(scale), a.dtype.type(0)
    some = np.zeros(a.shape[1], a.dtype)
    for i in range(a.shape[0]):
        row, kept = da[i], a[i]
        for j in range(a.shape[1]):
            value = row[j] * factor if kept[j] > zero else zero
            row[j] = value
            some[j] += value
        if i % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 or i == a.shape[0] - 1:
            if total.size > 0:
                total += some
            some[:] = 0


@inlined
def _normal_below(x):
    """Φ(x)."""
    dtype = type(x)
    return dtype(0.5) * (dtype(1) + error_function(x * dtype(0.7071067811865476)))


@inlined
def gelu_rows(h, bias, drawn, a):
    """h = h + bias, in place, and a = Drop(gelu(h))."""
    count, width = h.shape
    words = room_for_lanes(width)
    lanes = words.view(np.uint16)
    limit, factor, zero = np.uint16(drawn.threshold), h.dtype.type(drawn.scale), h.dtype.type(0)
    base = 0
    for i in range(count):
        if drawn.threshold > 0:
            base = draw_lanes(words, drawn, i * width, width)
        bits = lanes[base : base + width]
        for j in range(width):
            value = h[i, j] + bias[j]
            h[i, j] = value
            a[i, j] = value * _normal_below(value)
        if drawn.threshold > 0:
            for j in range(width):
                a[i, j] = a[i, j] * factor if bits[j] >= limit else zero


@inlined
def gelu_rows_backward(da, h, drawn):
    """da becomes the gradient before the activation, in place."""
    count, width = h.shape
    dtype = h.dtype.type
    words = room_for_lanes(width)
    lanes = words.view(np.uint16)
    limit, factor, zero = np.uint16(drawn.threshold), dtype(drawn.scale), dtype(0)
    density_at_zero = dtype(0.3989422804014327)  # 1/√(2π)
    base = 0
    for i in range(count):
        if drawn.threshold > 0:
            base = draw_lanes(words, drawn, i * width, width)
            bits = lanes[base : base + width]
            for j in range(width):
                da[i, j] = da[i, j] * factor if bits[j] >= limit else zero
        for j in range(width):
            x = h[i, j]
            slope = _normal_below(x) + x * density_at_zero * exponential(dtype(-0.5) * x * x)
            da[i, j] *= slope


@kernel(calls="decoding")
def activate(h: Rows, gelu: bool, a: OutRows):
    """a = gelu(h), or relu(h)."""
    h, a = borrow(h), borrow(a)
    zero = h.dtype.type(0)
    for i in range(h.shape[0]):
        for j in range(h.shape[1]):
            value = h[i, j]
            if gelu:
                a[i, j] = value * _normal_below(value)
            else:
                a[i, j] = zero if value < zero else value  # NaN stays NaN


@kernel(calls="feed_forward.forward")
def up_and_down(
    x: Matrix, w1: Matrix, b1: Vector, w2: Matrix, b2: Vector, gelu: bool, drawn: Numbers,
    h: OutRows, a: OutRows, y: OutRows,
):  # fmt: skip
    """Write h and a, which are kept (one array for ReLU), and y."""
    h, a = borrow(h), borrow(a)
    product(x, w1, 0, h)
    if gelu:
        gelu_rows(h, b1, drawn, a)
    else:
        relu_rows(a, b1, drawn)
    fill_and_map(a, w2, b2, y)


@kernel(calls="feed_forward.backward")
def down_and_up(
    dy: Rows, x: Matrix, w1: Matrix, w2: Matrix, gelu: bool, drawn: Numbers, h: Rows, a: Rows, dh: OutRows,
    dx: OutRows, dw1: OutMatrix, db1: OutVector, dw2: OutMatrix, db2: OutVector,
):  # fmt: skip  # fmt: skip
    """Write dx, and add to the parameters' gradients; dh is working memory."""
    h, a, dh = borrow(h), borrow(a), borrow(dh)
    product(dy, w2.T, 0, dh)
    if gelu:
        gelu_rows_backward(dh, h, drawn)
        add_columns(dh, db1)
    else:
        relu_rows_backward(dh, a, drawn.scale, db1)
    add_gradients(dy, a, dw2, db2)
    add_weight_gradient(x, dh, dw1)
    product(dh, w1.T, 0, dx)
