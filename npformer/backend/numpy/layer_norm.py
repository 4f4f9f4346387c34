"""Layer normalisation over blocks of rows that stay in the CPU cache; products compute the sums.

Each sum over C is a dot product of a row with a vector (0.1 ns per number; ``np.sum`` takes 0.3 for short
rows), each sum over tokens a BLAS product with ones. A row's results must depend only on that row, to the
bit, so BLAS's matrix-vector product, which mixes rows, is not used for them. Backward forms
dy·x̂ once for two sums: Σ_tokens dy·x̂ is dγ, and its product with γ/C is
mean_C(g·x̂), since g = γ·dy. Likewise mean_C g is the product of dy with γ/C, so g need not exist yet.
"""

from __future__ import annotations

import math

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, column_sums, filled, row_blocks
from npformer.backend.numpy.gradients import expect_gradients
from npformer.backend.workspace import empty
from npformer.functional.layer_norm import LayerNormCache, expect_gain
from npformer.typing import Array


def layer_norm_forward(x: Array, gamma: Array, beta: Array, eps: float = 1e-5) -> tuple[Array, LayerNormCache]:
    """As the plain kernel: normalise x (..., C) over C. Returns y (..., C)."""
    expect_gain(x, gamma, beta)
    C = x.shape[-1]
    y, x_hat, r = empty(x.shape, x.dtype), empty(x.shape, x.dtype), empty((*x.shape[:-1], 1), x.dtype)
    mean = filled(C, 1 / max(1, C), x.dtype)  # the product with it is a mean
    x_rows, y_rows, x_hat_rows, r_rows = map(as_matrix, (x, y, x_hat, r))
    for rows in row_blocks(*x_rows.shape):
        centred, some_r = x_hat_rows[rows], r_rows[rows]
        np.subtract(x_rows[rows], np.vecdot(x_rows[rows], mean)[:, None], out=centred)
        np.vecdot(centred, centred, out=some_r[:, 0])
        some_r += C * eps
        np.sqrt(some_r, out=some_r)
        np.divide(math.sqrt(C), some_r, out=some_r)  # 1/√(Σ_C/C + ε) = √C/√(Σ_C + C·ε)
        centred *= some_r
        block = np.multiply(centred, gamma, out=y_rows[rows])
        block += beta
    return y, LayerNormCache(x_hat, r, gamma)


def layer_norm_backward(dy: Array, cache: LayerNormCache) -> tuple[Array, Array, Array]:
    """As the plain kernel: gradients (dx (..., C), dgamma (C,), dbeta (C,))."""
    x_hat, r, gamma = cache
    expect_gradients(dy, x_hat.shape)
    dx, mean_of_gain = empty(x_hat.shape, x_hat.dtype), gamma * (1 / max(1, gamma.shape[0]))  # γ/C
    dgamma, dbeta = np.zeros((2, *gamma.shape), dtype=x_hat.dtype)
    dy_rows, dx_rows, x_hat_rows, r_rows = map(as_matrix, (dy, dx, x_hat, r))
    for rows in row_blocks(*dx_rows.shape):
        dy_block, x_hat_block, dx_block = dy_rows[rows], x_hat_rows[rows], dx_rows[rows]
        scratch = np.multiply(dy_block, x_hat_block, out=empty(dx_block.shape, dx.dtype))  # dy·x̂
        dgamma += column_sums(scratch)
        dbeta += column_sums(dy_block)
        along_x_hat = np.vecdot(scratch, mean_of_gain)  # mean_C(g·x̂)
        np.multiply(x_hat_block, along_x_hat[:, None], out=scratch)
        scratch += np.vecdot(dy_block, mean_of_gain)[:, None]  # mean_C g
        np.multiply(dy_block, gamma, out=dx_block)
        dx_block -= scratch
        dx_block *= r_rows[rows]
    return dx, dgamma, dbeta
