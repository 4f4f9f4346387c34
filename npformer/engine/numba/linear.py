"""The linear map: one compiled call forward and one backward, with products by BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.workspace import empty
from npformer.engine.numba.arguments import Matrix, OutMatrix, OutRows, OutVector, Rows, Vector
from npformer.engine.numba.compiling import inlined, kernel
from npformer.engine.numba.gradients import rooms, settle_rooms
from npformer.engine.numba.products import for_blas, product
from npformer.engine.numba.recording import few_of_step
from npformer.engine.numba.rows import as_rows, contiguous, contiguous_rows
from npformer.functional.linear import LinearCache, expect_linear
from npformer.typing import Array

ROWS_AT_ONCE = 64
#: With more tokens the library's matrix products are faster.
FEW_TOKENS = 4
AT_ONCE = 16  # rows of W, which several tokens meet while they are in a fast cache


def linear_forward(x: Array, weight: Array, bias: Array) -> tuple[Array, LinearCache]:
    expect_linear(x, weight, bias)
    y = empty((*x.shape[:-1], weight.shape[1]), x.dtype)
    y_rows = as_rows(y)
    if y_rows.shape[0] <= FEW_TOKENS and weight.flags.c_contiguous:
        (few_of_step() or few_rows)(contiguous_rows(x), weight, contiguous(bias), False, y_rows)
    else:
        map_rows(for_blas(as_rows(x)), for_blas(weight), contiguous(bias), y_rows)
    return y, LinearCache(x, weight)


def linear_backward(dy: Array, cache: LinearCache, into: Into = ()) -> Any:
    x, weight = cache
    shapes = weight.shape, weight.shape[1:]
    expect_gradients(dy, (*x.shape[:-1], weight.shape[1]), into, *shapes)
    dx = empty(x.shape, x.dtype)
    dweight, dbias = gradients = rooms(into, x.dtype, *shapes)
    map_rows_backward(
        contiguous_rows(dy), for_blas(as_rows(x)), for_blas(weight), as_rows(dx), dweight, dbias
    )  # fmt: skip
    return settle_rooms(dx, gradients, into)


@inlined
def add_product(x, w, start, first, y):
    """y (n,) += x (m,) times n columns of w from first on, rows start … start + m − 1."""
    n, whole, stop = y.shape[0], x.shape[0] - x.shape[0] % 4, first + y.shape[0]
    for i in range(0, whole, 4):
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        row_a, row_b = w[start + i, first:stop], w[start + i + 1, first:stop]
        row_c, row_d = w[start + i + 2, first:stop], w[start + i + 3, first:stop]
        for j in range(n):
            y[j] += a * row_a[j] + b * row_b[j] + c * row_c[j] + d * row_d[j]
    for i in range(whole, x.shape[0]):
        a, row_a = x[i], w[start + i, first:stop]
        for j in range(n):
            y[j] += a * row_a[j]


@inlined
def add_product_of_used(x, w, first, y):
    """y (n,) += x (m,) times n columns of w from first on; it skips the rows of w that meet a 0."""
    used, m, n, stop = np.empty(x.shape[0], np.int64), 0, y.shape[0], first + y.shape[0]
    for i in range(x.shape[0]):
        used[m] = i
        m += x[i] != 0  # NaN counts
    whole = m - m % 4
    for i in range(0, whole, 4):
        p, q, r, s = used[i], used[i + 1], used[i + 2], used[i + 3]
        a, b, c, d = x[p], x[q], x[r], x[s]
        row_a, row_b, row_c, row_d = w[p, first:stop], w[q, first:stop], w[r, first:stop], w[s, first:stop]
        for j in range(n):
            y[j] += a * row_a[j] + b * row_b[j] + c * row_c[j] + d * row_d[j]
    for i in range(whole, m):
        a, row_a = x[used[i]], w[used[i], first:stop]
        for j in range(n):
            y[j] += a * row_a[j]


@inlined
def affine(x, w, bias, zeros, first, stop, y):
    """Columns first … stop − 1 of y (B, n) = x (B, m) w + bias; zeros: many numbers of x may be 0."""
    for r in range(x.shape[0]):
        for j in range(first, stop):
            y[r, j] = bias[j]
    if x.shape[0] == 1:
        if zeros:
            add_product_of_used(x[0], w, first, y[0, first:stop])
        else:
            add_product(x[0], w, 0, first, y[0, first:stop])
        return
    for i in range(0, x.shape[1], AT_ONCE):
        for r in range(x.shape[0]):
            add_product(x[r, i : i + AT_ONCE], w, i, first, y[r, first:stop])


@kernel(calls="linear.forward")
def few_rows(x: Rows, weight: Rows, bias: Vector, zeros: bool, y: OutRows):
    """y = x weight + bias for a few tokens; it reads weight once, and wakes no other thread."""
    affine(x, weight, bias, zeros, 0, y.shape[1], y)


@inlined
def add_columns(x, total):
    """total += Σ_rows x, in small groups of rows, which rounds less; nothing if total is empty."""
    if total.size == 0:
        return
    some = np.zeros_like(total)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            some[j] += x[i, j]
        if i % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 or i == x.shape[0] - 1:
            total += some
            some[:] = 0


@inlined
def fill_and_map(x, weight, bias, y):
    """y = x weight + bias."""
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = bias[j]
    product(x, weight, 1, y)


@kernel(calls="linear.forward")
def map_rows(x: Matrix, weight: Matrix, bias: Vector, y: OutRows):
    """y = x weight + bias."""
    fill_and_map(x, weight, bias, y)


@inlined
def add_weight_gradient(x, dy, dweight):
    """dweight += xᵀ dy; nothing if dweight is empty."""
    if dweight.size > 0:
        product(x.T, dy, 1, dweight)


@inlined
def add_gradients(dy, x, dweight, dbias):
    """dweight += xᵀ dy and dbias += Σ_rows dy; nothing to what is empty."""
    add_weight_gradient(x, dy, dweight)
    add_columns(dy, dbias)


@kernel(calls="linear.backward")
def map_rows_backward(
    dy: Rows, x: Matrix, weight: Matrix, dx: OutRows, dweight: OutMatrix, dbias: OutVector
):  # fmt: skip
    """Write dx, add to dweight and dbias."""
    product(dy, weight.T, 0, dx)
    add_gradients(dy, x, dweight, dbias)
