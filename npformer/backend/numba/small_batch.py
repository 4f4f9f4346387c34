"""What a decoding step does with one token of each row: products that read a weight once, softmax, normalisation."""

from __future__ import annotations

import math

import numpy as np

from npformer.backend.numba.compiling import inlined
from npformer.backend.numba.exponential import exponential
from npformer.backend.numba.linear import AT_ONCE, FEW_TOKENS, add_product, affine, fill_and_map
from npformer.backend.numba.maximum import comparable, largest
from npformer.backend.numba.products import product
from npformer.backend.numba.sharing import vector


@inlined
def add_products(x, w, y):
    """y (B, n) += x (B, m) times w (m, n)."""
    if x.shape[0] > FEW_TOKENS:
        product(x, w, 1, y)
        return
    for i in range(0, x.shape[1], AT_ONCE):
        for r in range(x.shape[0]):
            add_product(x[r, i : i + AT_ONCE], w, i, y[r])


@inlined
def map_columns(x, w, bias, y):
    """y (B, n) = x (B, m) times the first n columns of w, plus bias (n,)."""
    if x.shape[0] > FEW_TOKENS:
        fill_and_map(x, w[:, : y.shape[1]], bias, y)
    else:
        affine(x, w, bias, y)


@inlined
def add_product_of_few(x, w, y):
    """The same for one token, x (m,) and y (n,), reading only the rows of w that meet a number other than 0."""
    used = np.empty(x.shape[0], np.int64)
    m = 0
    for i in range(x.shape[0]):
        used[m] = i
        m += x[i] != 0  # NaN counts
    n, whole = y.shape[0], m - m % 4
    for i in range(0, whole, 4):
        p, q, r, s = used[i], used[i + 1], used[i + 2], used[i + 3]
        a, b, c, d = x[p], x[q], x[r], x[s]
        row_a, row_b, row_c, row_d = w[p], w[q], w[r], w[s]
        for j in range(n):
            y[j] += a * row_a[j] + b * row_b[j] + c * row_c[j] + d * row_d[j]
    for i in range(whole, m):
        a, row_a = x[used[i]], w[used[i]]
        for j in range(n):
            y[j] += a * row_a[j]


@inlined
def softmax_of_visible(scores, visible, scale):
    """Scores (S,) become weights, in place; all of them 0 if nothing is visible."""
    own = scores.dtype.type
    nowhere, nothing = own(-np.inf), own(0)
    for j in range(scores.shape[0]):
        scores[j] = scores[j] * scale if visible[j] else nowhere
    top = largest(comparable(scores))
    if top == nowhere:
        scores[:] = nothing
        return
    total = nothing
    for j in range(scores.shape[0]):
        scores[j] = exponential(scores[j] - top)
    for j in range(scores.shape[0]):
        total += scores[j]
    inverse = own(1) / total
    for j in range(scores.shape[0]):
        scores[j] *= inverse


@inlined
def norm(x, at, eps, y):
    """y = LN(x), γ and β being where at (2,) says; y may be x."""
    own, n = x.dtype.type, x.shape[0]
    gamma, beta = vector(at[0], n, x), vector(at[1], n, x)
    mean = own(0)
    for j in range(n):
        mean += x[j]
    mean /= n
    square = own(0)
    for j in range(n):
        square += (x[j] - mean) * (x[j] - mean)
    r = own(1 / math.sqrt(square / n + eps))
    for j in range(n):
        y[j] = (x[j] - mean) * r * gamma[j] + beta[j]
