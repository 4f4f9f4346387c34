"""Dropout and x + Drop(f) in one pass. Random bits are drawn a few thousand at a time; backward draws them again."""

from __future__ import annotations

import numpy as np

from npformer.backend.workspace import empty
from npformer.engine.numba.arguments import OutVector, Vector
from npformer.engine.numba.compiling import kernel
from npformer.engine.numba.philox import Numbers, draw_lanes, numbers, room_for_lanes
from npformer.engine.numba.rows import contiguous
from npformer.functional.arrays import expect_shape
from npformer.functional.philox import Draw
from npformer.typing import Array

AT_ONCE = 8192


def _dropped(x: Array | None, f: Array, drawn: Numbers) -> Array:
    """x + Drop(f), or Drop(f) alone."""
    y = empty(f.shape, f.dtype)
    f_flat = contiguous(f).reshape(f.size)
    add_dropped(f_flat if x is None else contiguous(x).reshape(f.size), x is not None, f_flat, drawn, y.reshape(f.size))
    return y


def dropout_forward(x: Array, draw: Draw | None) -> tuple[Array, Numbers]:
    drawn = numbers(draw, x)
    return (_dropped(None, x, drawn) if drawn.threshold else x), drawn


def dropout_backward(dy: Array, cache: Numbers) -> tuple[Array]:
    return (_dropped(None, dy, cache) if cache.threshold else dy,)


def residual_forward(x: Array, f: Array, draw: Draw | None) -> tuple[Array, Numbers]:
    expect_shape("f", f, "the shape of x", *x.shape)
    drawn = numbers(draw, f)
    return _dropped(x, f, drawn), drawn


def residual_backward(dy: Array, cache: Numbers) -> tuple[Array, Array]:
    return dy, *dropout_backward(dy, cache)


@kernel(calls="dropout.forward dropout.backward residual.forward residual.backward")
def add_dropped(x: Vector, has_x: bool, f: Vector, drawn: Numbers, y: OutVector):
    """y = x + Drop(f), or Drop(f) if has_x is false (then something is dropped)."""
    words = room_for_lanes(AT_ONCE)
    lanes = words.view(np.uint16)
    limit, factor, zero = np.uint16(drawn.threshold), f.dtype.type(drawn.scale), f.dtype.type(0)
    for first in range(0, f.size, AT_ONCE):
        size = min(AT_ONCE, f.size - first)
        base = draw_lanes(words, drawn, first, size) if drawn.threshold > 0 else 0
        some_x, some_f, some_y = x[first : first + size], f[first : first + size], y[first : first + size]
        bits = lanes[base : base + size]
        if drawn.threshold == 0:
            for j in range(size):
                some_y[j] = some_x[j] + some_f[j]
        elif has_x:
            for j in range(size):
                some_y[j] = some_x[j] + (some_f[j] * factor if bits[j] >= limit else zero)
        else:
            for j in range(size):
                some_y[j] = some_f[j] * factor if bits[j] >= limit else zero
