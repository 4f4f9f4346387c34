"""The linear map with its bias added, and summed, by one pass each; products go to reused memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npformer.backend.numba.compiling import inlined, kernel
from npformer.backend.numba.rows import as_rows, contiguous, contiguous_rows, is_direct
from npformer.backend.ops import Pair, add_into
from npformer.backend.workspace import empty
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
        few_rows(contiguous_rows(x), weight, contiguous(bias), y_rows)
        return y, LinearCache(x, weight)
    np.matmul(as_rows(x), weight, out=y_rows)
    add_bias(y_rows, contiguous(bias))
    return y, LinearCache(x, weight)


def linear_backward(dy: Array, cache: LinearCache, into: Sequence[Array | None] = ()) -> Any:
    x, weight = cache
    dy_rows = contiguous_rows(dy)
    dx = product(dy_rows, weight.T).reshape(x.shape)
    rest = weight_and_bias(as_rows(x), dy_rows, into)
    return (dx, *rest) if rest else dx


def product(a: Array, b: Array) -> Array:
    """a b, in reused memory."""
    return np.matmul(a, b, out=empty((a.shape[0], b.shape[1]), a.dtype))


def weight_and_bias(x: Array, dy: Array, into: Sequence[Array | None]) -> tuple[Array, ...]:
    """dW = xᵀ dy and db = Σ_rows dy, added where into says, or returned where it says nothing."""
    if len(into) == 2 and into[0] is None and into[1] is None:
        return ()
    if is_direct(into):
        add_weight_and_bias(product(x.T, dy), dy, *into)
        return ()
    dbias = np.zeros(dy.shape[1], dtype=dy.dtype)
    column_sums(dy, dbias)
    if len(into) == 2 and into[0] is None:
        return add_into((dbias,), into[1:])
    return add_into((product(x.T, dy), dbias), into)


@inlined
def add_product(x, w, first, y):
    """y (n,) += x (m,) times the first n columns of rows first … first + m − 1 of w."""
    n, whole = y.shape[0], x.shape[0] - x.shape[0] % 4
    for i in range(0, whole, 4):
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        row_a, row_b, row_c, row_d = w[first + i], w[first + i + 1], w[first + i + 2], w[first + i + 3]
        for j in range(n):
            y[j] += a * row_a[j] + b * row_b[j] + c * row_c[j] + d * row_d[j]
    for i in range(whole, x.shape[0]):
        a, row_a = x[i], w[first + i]
        for j in range(n):
            y[j] += a * row_a[j]


@inlined
def affine(x, w, bias, y):
    """y (B, n) = x (B, m) times the first n columns of w, plus bias."""
    for r in range(x.shape[0]):
        y[r, :] = bias[: y.shape[1]]
    if x.shape[0] == 1:
        add_product(x[0], w, 0, y[0])
        return
    for i in range(0, x.shape[1], AT_ONCE):
        for r in range(x.shape[0]):
            add_product(x[r, i : i + AT_ONCE], w, i, y[r])


@kernel("XXxY")
def few_rows(x, weight, bias, y):
    """y = x weight + bias for a few tokens: what counts is reading weight once, and waking no other thread."""
    affine(x, weight, bias, y)


@kernel("Yx")
def add_bias(y, bias):
    """y += bias, row by row."""
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] += bias[j]


@inlined
def _add_columns(x, total):
    some = np.zeros_like(total)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            some[j] += x[i, j]
        if i % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 or i == x.shape[0] - 1:
            total += some
            some[:] = 0


@kernel("Xy")
def column_sums(x, total):
    """total += Σ_rows x, a few rows at a time, for the sake of rounding."""
    _add_columns(x, total)


@kernel("XXYy")
def add_weight_and_bias(some_dweight, dy, dweight, dbias):
    """dweight += some_dweight and dbias += Σ_rows dy, in one call: each gives Python's lock away and waits for it."""
    for i in range(dweight.shape[0]):
        for j in range(dweight.shape[1]):
            dweight[i, j] += some_dweight[i, j]
    _add_columns(dy, dbias)


LINEAR = Pair(linear_forward, linear_backward)
