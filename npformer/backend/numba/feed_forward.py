"""The feed-forward with bias, activation and dropout in one pass between the two products.

With ReLU nothing but the dropped activation is kept: it is 0 exactly where its gradient is, whether
ReLU or dropout made it so. GELU keeps its input too, and draws the bits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.numba.compiling import inlined, kernel
from npformer.backend.numba.error_function import error_function
from npformer.backend.numba.exponential import exponential
from npformer.backend.numba.linear import add_bias, product, weight_and_bias
from npformer.backend.numba.philox import Numbers, draw_lanes, numbers, room_for_lanes
from npformer.backend.numba.rows import as_rows, contiguous, contiguous_rows
from npformer.backend.ops import Pair
from npformer.backend.workspace import empty
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
    a = product(as_rows(x), w1)  # (N, F)
    drawn = numbers(draw, a) if draw is None else numbers(draw, a.reshape(*x.shape[:-1], w1.shape[1]))
    h = None
    if activation == "relu":
        relu_rows(a, contiguous(b1), *drawn)
    else:
        h, a = a, empty(a.shape, a.dtype)
        gelu_rows(h, contiguous(b1), *drawn, a)
    expect_linear(a.reshape(*x.shape[:-1], w1.shape[1]), w2, b2)
    y = empty((*x.shape[:-1], w2.shape[1]), x.dtype)
    np.matmul(a, w2, out=as_rows(y))
    add_bias(as_rows(y), contiguous(b2))
    return y, FeedForwardCache(x, w1, w2, h, a, drawn)


def feed_forward_backward(dy: Array, cache: FeedForwardCache, into: Sequence[Array | None] = ()) -> Any:
    x, w1, w2, h, a, drawn = cache
    dy_rows = contiguous_rows(dy)
    dh = product(dy_rows, w2.T)  # (N, F)
    if h is None:
        relu_rows_backward(dh, a, drawn.scale)
    else:
        gelu_rows_backward(dh, h, *drawn)
    down = weight_and_bias(a, dy_rows, into[-2:])  # into names the last parameters
    up = weight_and_bias(as_rows(x), dh, into[:-2])
    dx = product(dh, w1.T).reshape(x.shape)
    return (dx, *up, *down) if up or down else dx


@kernel("Yx" + "iiiiiif")
def relu_rows(h, bias, seed, site, step, micro, start, threshold, scale):
    """h = Drop(relu(h + bias)), in place."""
    count, width = h.shape
    at_once = max(1, AT_ONCE // max(width, 1))
    words = room_for_lanes(at_once * width)
    lanes = words.view(np.uint16)
    limit, factor, nothing = np.uint16(threshold), h.dtype.type(scale), h.dtype.type(0)
    base = 0
    for i in range(count):
        place = i % at_once
        if threshold > 0 and place == 0:
            base = draw_lanes(words, seed, site, step, micro, start + i * width, min(at_once, count - i) * width)
        bits = lanes[base + place * width : base + (place + 1) * width]
        if threshold == 0:
            for j in range(width):
                value = h[i, j] + bias[j]
                h[i, j] = nothing if value < nothing else value  # NaN stays NaN
        else:
            for j in range(width):
                value = h[i, j] + bias[j]
                h[i, j] = nothing if (value < nothing) | (bits[j] < limit) else value * factor  # | has no branch


@kernel("YXf")
def relu_rows_backward(da, a, scale):
    """da becomes the gradient before the activation, in place."""
    factor, nothing = a.dtype.type(scale), a.dtype.type(0)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            da[i, j] = da[i, j] * factor if a[i, j] > nothing else nothing


@inlined
def _normal_below(x):
    """Φ(x)."""
    own = type(x)
    return own(0.5) * (own(1) + error_function(x * own(0.7071067811865476)))


@kernel("Yx" + "iiiiiif" + "Y")
def gelu_rows(h, bias, seed, site, step, micro, start, threshold, scale, a):
    """h += bias; a = Drop(gelu(h))."""
    count, width = h.shape
    words = room_for_lanes(width)
    lanes = words.view(np.uint16)
    limit, factor, nothing = np.uint16(threshold), h.dtype.type(scale), h.dtype.type(0)
    base = 0
    for i in range(count):
        if threshold > 0:
            base = draw_lanes(words, seed, site, step, micro, start + i * width, width)
        bits = lanes[base : base + width]
        for j in range(width):
            value = h[i, j] + bias[j]
            h[i, j] = value
            a[i, j] = value * _normal_below(value)
        if threshold > 0:
            for j in range(width):
                a[i, j] = a[i, j] * factor if bits[j] >= limit else nothing


@kernel("YX" + "iiiiiif")
def gelu_rows_backward(da, h, seed, site, step, micro, start, threshold, scale):
    """da becomes the gradient before the activation, in place."""
    count, width = h.shape
    own = h.dtype.type
    words = room_for_lanes(width)
    lanes = words.view(np.uint16)
    limit, factor, nothing = np.uint16(threshold), own(scale), own(0)
    density_at_zero = own(0.3989422804014327)  # 1/√(2π)
    base = 0
    for i in range(count):
        if threshold > 0:
            base = draw_lanes(words, seed, site, step, micro, start + i * width, width)
            bits = lanes[base : base + width]
            for j in range(width):
                da[i, j] = da[i, j] * factor if bits[j] >= limit else nothing
        for j in range(width):
            x = h[i, j]
            slope = _normal_below(x) + x * density_at_zero * exponential(own(-0.5) * x * x)
            da[i, j] *= slope


FEED_FORWARD = Pair(feed_forward_forward, feed_forward_backward)
