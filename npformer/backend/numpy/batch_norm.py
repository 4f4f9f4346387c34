"""Batch normalisation over blocks of rows that stay in the CPU cache; BLAS products compute the sums over tokens.

Backward needs two sums instead of four: with dβ = Σ dy and dγ = Σ dy·x̂ the plain kernel's other two are
Σ g = γ·dβ and Σ g·x̂ = γ·dγ, since γ is the same for all tokens.
"""

from __future__ import annotations

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, column_sums, row_blocks
from npformer.backend.numpy.gradients import expect_gradients
from npformer.backend.workspace import empty
from npformer.functional.batch_norm import BatchNormCache, token_shares
from npformer.functional.layer_norm import expect_gain
from npformer.typing import Array


def batch_norm_forward(
    x: Array, gamma: Array, beta: Array, counts: Array | None = None, eps: float = 1e-5
) -> tuple[Array, BatchNormCache]:
    """As the plain kernel: normalise x (..., C) over all tokens. Returns y (..., C)."""
    expect_gain(x, gamma, beta)
    shares = token_shares(x, counts)
    x_rows, by_token = as_matrix(x), shares.reshape(-1)
    mean, variance = by_token.dot(x_rows), np.zeros_like(gamma)
    x_hat, y = empty(x.shape, x.dtype), empty(x.shape, x.dtype)
    x_hat_rows, y_rows = as_matrix(x_hat), as_matrix(y)
    for rows in row_blocks(*x_rows.shape):
        centred = np.subtract(x_rows[rows], mean, out=x_hat_rows[rows])
        variance += by_token[rows].dot(centred * centred)
    r = 1 / np.sqrt(variance + eps)
    for rows in row_blocks(*x_rows.shape):
        centred = x_hat_rows[rows]
        centred *= r
        block = np.multiply(centred, gamma, out=y_rows[rows])
        block += beta
    return y, BatchNormCache(x_hat, r, gamma, shares, mean, variance)


def batch_norm_backward(dy: Array, cache: BatchNormCache) -> tuple[Array, Array, Array]:
    """As the plain kernel: gradients (dx (..., C), dgamma (C,), dbeta (C,))."""
    x_hat, r, gamma, shares, _, _ = cache
    expect_gradients(dy, x_hat.shape)
    dgamma, dbeta = np.zeros((2, *gamma.shape), dtype=x_hat.dtype)
    dx, slope = empty(x_hat.shape, x_hat.dtype), r * gamma
    dy_rows, x_hat_rows, dx_rows, by_token = map(as_matrix, (dy, x_hat, dx, shares))
    for rows in row_blocks(*dx_rows.shape):
        dgamma += column_sums(dy_rows[rows] * x_hat_rows[rows])
        dbeta += column_sums(dy_rows[rows])
    along_one, along_x_hat = slope * dbeta, slope * dgamma
    for rows in row_blocks(*dx_rows.shape):
        lost = np.multiply(x_hat_rows[rows], along_x_hat, out=empty(dx_rows[rows].shape, dx.dtype))
        lost += along_one
        lost *= by_token[rows]
        block = np.multiply(dy_rows[rows], slope, out=dx_rows[rows])
        block -= lost
    return dx, dgamma, dbeta
