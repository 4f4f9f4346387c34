"""LayerNorm, alone or after x + Drop(f): one pass over the tokens forward, and one backward.

A token's row stays in the fastest cache during dropout, sum, centring, scaling and shifting; NumPy makes one pass over
memory for each of these. Dropout's mask is not kept: backward draws the bits again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.ops import add_into
from npformer.backend.workspace import empty, empty_like
from npformer.engine.numba.arguments import OutRows, OutVector, Rows, Vector
from npformer.engine.numba.compiling import inlined, kernel
from npformer.engine.numba.philox import NOTHING_DROPPED, Numbers, draw_lanes, numbers, room_for_lanes
from npformer.engine.numba.products import borrow
from npformer.engine.numba.rows import contiguous, contiguous_rows, is_direct
from npformer.functional.arrays import expect_shape
from npformer.functional.layer_norm import expect_gain
from npformer.functional.philox import Draw
from npformer.typing import Array

LANES_AT_ONCE = 8192


class NormCache(NamedTuple):
    x_hat: Array  # (N, C)  kept: used twice in backward
    r: Array  # (N,)
    gamma: Array  # (C,)
    draw: Numbers  # which bits dropped entries of f


def _forward(
    x: Array, f: Array | None, gamma: Array, beta: Array, eps: float, draw: Draw | None, total: bool
) -> tuple[Array | None, Array, NormCache]:
    """(sum or None, normed, cache)."""
    if f is not None:
        expect_shape("f", f, "the shape of x", *x.shape)
    expect_gain(x, gamma, beta)
    dropped = NOTHING_DROPPED if f is None else numbers(draw, f)
    x_rows = contiguous_rows(x)
    f_rows = x_rows if f is None else contiguous_rows(f)
    y, x_hat, r = empty(x.shape, x.dtype), empty_like(x_rows), empty(x_rows.shape[:1], x.dtype)
    summed = empty(x.shape, x.dtype) if total else None
    norm_forward(
        x_rows, f_rows, f is not None, contiguous(gamma), contiguous(beta), eps, dropped,
        x_hat if summed is None else contiguous_rows(summed), total, x_hat, r, contiguous_rows(y),
    )  # fmt: skip
    return summed, y, NormCache(x_hat, r, gamma, dropped)


def _backward(dy: Array, dsum: Array | None, cache: NormCache, with_f: bool, into: Into) -> tuple[Any, ...]:
    x_hat, r, gamma, dropped = cache
    dy_rows = contiguous_rows(dy)
    expect_gradients(dy_rows, x_hat.shape, into, gamma.shape, gamma.shape)
    if dsum is not None:
        expect_gradients(dsum, dy.shape)
    dx = empty(dy.shape, dy.dtype)
    has_df = with_f and dropped.threshold > 0
    df = empty(dy.shape, dy.dtype) if has_df else dx  # nothing dropped: both terms have the same gradient
    totals = into if is_direct(into) else (np.zeros_like(gamma), np.zeros_like(gamma))
    norm_backward(
        dy_rows, x_hat, r, contiguous(gamma), dy_rows if dsum is None else contiguous_rows(dsum), dsum is not None,
        dropped, contiguous_rows(dx), contiguous_rows(df), has_df, *totals,
    )  # fmt: skip
    inputs = (dx, df) if with_f else (dx,)
    return inputs if totals is into else (*inputs, *add_into(totals, into))


def layer_norm_forward(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, NormCache]:
    return _forward(x, None, gamma, beta, eps, None, total=False)[1:]


def layer_norm_backward(dy: Array, cache: NormCache, into: Into = ()) -> Any:
    gradients = _backward(dy, None, cache, False, into)
    return gradients if len(gradients) > 1 else gradients[0]


def post_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[Array, NormCache]:
    return _forward(x, f, gamma, beta, eps, draw, total=False)[1:]


def post_norm_backward(dy: Array, cache: NormCache, into: Into = ()) -> Any:
    return _backward(dy, None, cache, True, into)


def add_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[tuple[Array, Array], NormCache]:
    total, y, cache = _forward(x, f, gamma, beta, eps, draw, total=True)
    return (total, y), cache


def add_norm_backward(dy: tuple[Array, Array], cache: NormCache, into: Into = ()) -> Any:
    dsum, dnormed = dy
    return _backward(dnormed, dsum, cache, True, into)


@inlined
def _summed(x, f, has_f, bits, threshold, scale, out):
    """out = x + Drop(f) for one row; returns its sum."""
    zero = x.dtype.type(0)
    if threshold > 0:
        for j in range(x.shape[0]):
            out[j] = x[j] + (f[j] * scale if bits[j] >= threshold else zero)
    elif has_f:
        for j in range(x.shape[0]):
            out[j] = x[j] + f[j]
    else:
        for j in range(x.shape[0]):
            out[j] = x[j]
    total = zero
    for j in range(x.shape[0]):
        total += out[j]
    return total


@kernel(calls="layer_norm.forward post_norm.forward add_norm.forward")
def norm_forward(
    x: Rows, f: Rows, has_f: bool, gamma: Vector, beta: Vector, eps: float, drawn: Numbers,
    total: OutRows, keeps_total: bool, x_hat: OutRows, r: OutVector, y: OutRows,
):  # fmt: skip
    """Write x_hat, r and y of LayerNorm(x + Drop(f)), and the sum if it is to be kept."""
    x, f, total, x_hat, y = borrow(x), borrow(f), borrow(total), borrow(x_hat), borrow(y)
    count, width = x.shape
    at_once = max(1, LANES_AT_ONCE // max(width, 1))
    words = room_for_lanes(at_once * width)
    lanes = borrow(words.view(np.uint16))
    dtype = gamma.dtype.type
    limit, factor, share = np.uint16(drawn.threshold), dtype(drawn.scale), dtype(1 / width)
    small, one = dtype(eps), dtype(1)
    base = 0
    for i in range(count):
        place = i % at_once
        if drawn.threshold > 0 and place == 0:
            base = draw_lanes(words, drawn, i * width, min(at_once, count - i) * width)
        first = base + place * width
        row, out = x_hat[i], y[i]
        mean = _summed(x[i], f[i], has_f, lanes[first : first + width], limit, factor, row) * share
        if keeps_total:
            for j in range(width):
                total[i, j] = row[j]
        square = dtype(0)
        for j in range(width):
            centred = row[j] - mean
            row[j] = centred
            square += centred * centred
        r_i = one / np.sqrt(square * share + small)
        r[i] = r_i
        for j in range(width):
            value = row[j] * r_i
            row[j] = value
            out[j] = gamma[j] * value + beta[j]


@kernel(calls="layer_norm.backward post_norm.backward add_norm.backward")
def norm_backward(
    dy: Rows, x_hat: Rows, r: Vector, gamma: Vector, dsum: Rows, has_dsum: bool, drawn: Numbers,
    dx: OutRows, df: OutRows, has_df: bool, dgamma: OutVector, dbeta: OutVector,
):  # fmt: skip
    """Write dx and df, and add to dgamma and dbeta. Rows are summed in small groups, which rounds less."""
    dy, x_hat, dsum, dx, df = borrow(dy), borrow(x_hat), borrow(dsum), borrow(dx), borrow(df)
    count, width = dy.shape
    at_once = max(1, LANES_AT_ONCE // max(width, 1))
    words = room_for_lanes(at_once * width)
    lanes = borrow(words.view(np.uint16))
    limit, factor, share = np.uint16(drawn.threshold), gamma.dtype.type(drawn.scale), gamma.dtype.type(1 / width)
    zero = gamma.dtype.type(0)
    some_dgamma, some_dbeta = np.zeros_like(dgamma), np.zeros_like(dbeta)
    base = 0
    for i in range(count):
        place = i % at_once
        if has_df and place == 0:
            base = draw_lanes(words, drawn, i * width, min(at_once, count - i) * width)
        dy_row, x_hat_row, dx_row, r_i = dy[i], x_hat[i], dx[i], r[i]
        along_one, along_x_hat = zero, zero
        for j in range(width):
            g = dy_row[j] * gamma[j]
            along_one += g
            along_x_hat += g * x_hat_row[j]
        for j in range(width):
            some_dgamma[j] += dy_row[j] * x_hat_row[j]
            some_dbeta[j] += dy_row[j]
        along_one *= share
        along_x_hat *= share
        for j in range(width):
            value = r_i * (dy_row[j] * gamma[j] - along_one - x_hat_row[j] * along_x_hat)
            dx_row[j] = value + dsum[i, j] if has_dsum else value
        if has_df:
            first = base + place * width
            bits, df_row = lanes[first : first + width], df[i]
            for j in range(width):
                df_row[j] = dx_row[j] * factor if bits[j] >= limit else zero
        if place == at_once - 1 or i == count - 1:
            dgamma += some_dgamma
            dbeta += some_dbeta
            some_dgamma[:] = 0
            some_dbeta[:] = 0
