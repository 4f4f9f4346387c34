"""Batch normalisation over blocks of rows that stay in the CPU cache; BLAS products compute the sums over tokens.

Backward needs two sums instead of four: with dβ = Σ dy and dγ = Σ dy·x̂ the plain kernel's other two are
Σ g = γ·dβ and Σ g·x̂ = γ·dγ, since γ is the same for all tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, column_sums, row_blocks
from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.numpy.layer_norm import expect_gain
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.functional.arrays import expect_shape
from npformer.functional.batch_norm import BatchNormCache, BatchNormInferenceCache, token_shares
from npformer.typing import Array


def batch_norm_forward(
    x: Array, gamma: Array, beta: Array, counts: Array | None = None, eps: float = 1e-5
) -> tuple[Array, BatchNormCache]:
    """As the plain kernel: normalise x (..., C) over all tokens. Returns y (..., C)."""
    expect_gain(x, gamma, beta)
    shares = token_shares(x, counts)
    x_rows, by_token = as_matrix(x), shares.reshape(-1)
    mean, variance = by_token.dot(x_rows), np.zeros_like(gamma)
    x_hat = empty(x.shape, x.dtype)
    for rows in row_blocks(*x_rows.shape):
        centred = np.subtract(x_rows[rows], mean, out=as_matrix(x_hat)[rows])
        variance += by_token[rows].dot(centred * centred)
    r = 1 / np.sqrt(variance + eps)
    y = _affine(x_hat, None, r, gamma, beta, x_hat)
    return y, BatchNormCache(x_hat, r, gamma, shares, mean, variance)


def batch_norm_backward(dy: Array, cache: BatchNormCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C), dgamma (C,), dbeta (C,))."""
    x_hat, r, gamma, shares, _, _ = cache
    expect_gradients(dy, x_hat.shape, into, gamma.shape, gamma.shape)
    dgamma, dbeta = _sums(dy, x_hat)
    dx, slope = empty(x_hat.shape, x_hat.dtype), r * gamma
    along_one, along_x_hat = slope * dbeta, slope * dgamma
    dy_rows, x_hat_rows, dx_rows, by_token = (as_matrix(array) for array in (dy, x_hat, dx, shares))
    for rows in row_blocks(*dx_rows.shape):
        lost = np.multiply(x_hat_rows[rows], along_x_hat, out=empty(dx_rows[rows].shape, dx.dtype))
        lost += along_one
        lost *= by_token[rows]
        block = np.multiply(dy_rows[rows], slope, out=dx_rows[rows])
        block -= lost
    return accumulate((dx, dgamma, dbeta), into)


def batch_norm_inference_forward(
    x: Array, gamma: Array, beta: Array, mean: Array, variance: Array, eps: float = 1e-5
) -> tuple[Array, BatchNormInferenceCache]:
    """As the plain kernel: normalise x (..., C) by a remembered mean and variance (C,). Returns y (..., C)."""
    expect_gain(x, gamma, beta)
    expect_shape("mean", mean, "(C,)", x.shape[-1])
    expect_shape("variance", variance, "(C,)", x.shape[-1])
    r, x_hat = 1 / np.sqrt(variance + eps), empty(x.shape, x.dtype)
    return _affine(x, mean, r, gamma, beta, x_hat), BatchNormInferenceCache(x_hat, r, gamma)


def batch_norm_inference_backward(dy: Array, cache: BatchNormInferenceCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C), dgamma, dbeta, dmean, dvariance (C,))."""
    x_hat, r, gamma = cache
    expect_gradients(dy, x_hat.shape, into, *[gamma.shape] * 4)
    dgamma, dbeta = _sums(dy, x_hat)
    slope = r * gamma
    dx = np.multiply(dy, slope, out=empty(x_hat.shape, x_hat.dtype))
    return accumulate((dx, dgamma, dbeta, -slope * dbeta, -0.5 * r * slope * dgamma), into)


def _affine(x: Array, mean: Array | None, r: Array, gamma: Array, beta: Array, x_hat: Array) -> Array:
    """Write (x − mean)·r into x_hat, or x̂·r if it holds the difference already (mean: None). Returns γ·x̂ + β."""
    y = empty(x.shape, x.dtype)
    x_rows, x_hat_rows, y_rows = as_matrix(x), as_matrix(x_hat), as_matrix(y)
    for rows in row_blocks(*x_rows.shape):
        centred = np.subtract(x_rows[rows], mean, out=x_hat_rows[rows]) if mean is not None else x_hat_rows[rows]
        centred *= r
        block = np.multiply(centred, gamma, out=y_rows[rows])
        block += beta
    return y


def _sums(dy: Array, x_hat: Array) -> tuple[Array, Array]:
    """(Σ dy·x̂, Σ dy), each (C,)."""
    dgamma, dbeta = np.zeros((2, x_hat.shape[-1]), dtype=x_hat.dtype)
    dy_rows, x_hat_rows = as_matrix(dy), as_matrix(x_hat)
    for rows in row_blocks(*x_hat_rows.shape):
        dgamma += column_sums(dy_rows[rows] * x_hat_rows[rows])
        dbeta += column_sums(dy_rows[rows])
    return dgamma, dbeta
