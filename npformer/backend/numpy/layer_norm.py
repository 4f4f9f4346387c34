"""Layer normalisation over blocks of rows that stay in the CPU cache; products compute the sums.

Each sum over C is a dot product of a row with a vector (0.1 ns per number; ``np.sum`` takes 0.3 for short
rows), each sum over tokens a BLAS product with ones. A row's results must depend only on that row, to the
bit, so BLAS's matrix-vector product, which mixes rows, is not used for them. Backward forms
dy·x̂ once for two sums: Σ_tokens dy·x̂ is dγ, and its product with γ/C is
mean_C(g·x̂), since g = γ·dy. Likewise mean_C g is the product of dy with γ/C, so g need not exist yet.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, column_sums, filled, row_blocks
from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.functional.arrays import expect_shape
from npformer.functional.layer_norm import LayerNormCache
from npformer.typing import Array


def layer_norm_forward(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, LayerNormCache]:
    """As the plain kernel: normalise x (..., C) over C. Returns y (..., C)."""
    expect_gain(x, gamma, beta)
    y, norm = empty(x.shape, x.dtype), NormRows.for_shape(x, gamma, beta, eps)
    x_rows, y_rows = as_matrix(x), as_matrix(y)
    for rows in row_blocks(*x_rows.shape):
        norm.write(x_rows[rows], rows, y_rows[rows])
    return y, norm.cache(x.shape)


def layer_norm_backward(dy: Array, cache: LayerNormCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C), dgamma (C,), dbeta (C,))."""
    expect_gradients(dy, cache.x_hat.shape, into, cache.gamma.shape, cache.gamma.shape)
    dx = empty(cache.x_hat.shape, cache.x_hat.dtype)
    slopes, dy_rows, dx_rows = NormSlopes(cache), as_matrix(dy), as_matrix(dx)
    for rows in row_blocks(*dx_rows.shape):
        slopes.write(dy_rows[rows], rows, dx_rows[rows])
    return accumulate((dx, slopes.dgamma, slopes.dbeta), into)


def expect_gain(x: Array, gamma: Array, beta: Array) -> None:
    """Raise ShapeError unless gamma and beta are (C,)."""
    expect_shape("gamma", gamma, "(C,)", x.shape[-1])
    expect_shape("beta", beta, "(C,)", x.shape[-1])


class NormRows(NamedTuple):
    """The forward, a few rows at a time, and the cache of all N rows."""

    x_hat: Array  # (N, C)
    r: Array  # (N, 1)
    gamma: Array  # (C,)
    beta: Array  # (C,)
    eps: float
    mean: Array  # (C,)  1/C: the product with it is a mean

    @classmethod
    def for_shape(cls, x: Array, gamma: Array, beta: Array, eps: float) -> NormRows:
        """Empty arrays for all rows of x (..., C)."""
        C = x.shape[-1]
        N = x.size // max(1, C)
        x_hat, r = empty((N, C), x.dtype), empty((N, 1), x.dtype)
        return cls(x_hat, r, gamma, beta, eps, filled(C, 1 / max(1, C), x.dtype))

    def write(self, x: Array, rows: slice, y: Array) -> None:
        """Normalise x (n, C), these rows of the whole, into y (n, C); x may be ``x_hat[rows]`` itself."""
        x_hat, r, C = self.x_hat[rows], self.r[rows], x.shape[1]
        np.subtract(x, np.vecdot(x, self.mean)[:, None], out=x_hat)
        np.vecdot(x_hat, x_hat, out=r[:, 0])
        r += C * self.eps
        np.sqrt(r, out=r)
        np.divide(math.sqrt(C), r, out=r)  # 1/√(Σ_C/C + ε) = √C/√(Σ_C + C·ε)
        x_hat *= r
        np.multiply(x_hat, self.gamma, out=y)
        y += self.beta

    def cache(self, shape: tuple[int, ...]) -> LayerNormCache:
        """The cache for the backward of an input of this shape."""
        return LayerNormCache(self.x_hat.reshape(shape), self.r.reshape(*shape[:-1], 1), self.gamma)


class NormSlopes:
    """The backward, a few rows at a time; dgamma and dbeta (C,) accumulate."""

    def __init__(self, cache: LayerNormCache) -> None:
        C = cache.gamma.shape[0]
        self.x_hat, self.r, self.gamma = as_matrix(cache.x_hat), as_matrix(cache.r), cache.gamma
        self.mean_of_gain = cache.gamma * (1 / max(1, C))  # γ/C
        self.dgamma, self.dbeta = np.zeros((2, C), dtype=self.x_hat.dtype)

    def write(self, dy: Array, rows: slice, dx: Array) -> None:
        """Write dx (n, C) for dy (n, C), these rows of the whole; dx must not be dy."""
        x_hat, mean_of_gain = self.x_hat[rows], self.mean_of_gain
        scratch = np.multiply(dy, x_hat, out=empty(dx.shape, dx.dtype))  # dy·x̂
        self.dgamma += column_sums(scratch)
        self.dbeta += column_sums(dy)
        along_x_hat = np.vecdot(scratch, mean_of_gain)  # mean_C(g·x̂)
        np.multiply(x_hat, along_x_hat[:, None], out=scratch)
        scratch += np.vecdot(dy, mean_of_gain)[:, None]  # mean_C g
        np.multiply(dy, self.gamma, out=dx)
        dx -= scratch
        dx *= self.r[rows]
