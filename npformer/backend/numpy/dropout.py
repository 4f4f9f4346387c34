"""Dropout, the residual sum, and the two norms of such a sum: post-LN's, and pre-LN's, which keeps the sum.

Dropout multiplies by the mask, where the plain kernel selects with ``where``, which takes ten times as long; ``x·keep``
with a boolean mask takes 0.14 ns per number. (So a dropped infinity becomes NaN, not 0; a run with an infinity has
diverged anyway.) x + f·keep·s is computed in the output array, block by block. The norms are those of
``layer_norm.py``: to normalise each block of the sum before it leaves the CPU cache would be no faster.
"""

from __future__ import annotations

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, row_blocks
from npformer.backend.numpy.gradients import expect_gradients
from npformer.backend.numpy.layer_norm import layer_norm_backward, layer_norm_forward
from npformer.backend.numpy.philox import kept
from npformer.backend.workspace import empty
from npformer.functional.add_norm import AddNormCache
from npformer.functional.arrays import expect_shape
from npformer.functional.dropout import DropoutCache
from npformer.functional.philox import Draw
from npformer.functional.post_norm import PostNormCache
from npformer.functional.residual import ResidualCache
from npformer.typing import Array


def dropout_forward(x: Array, draw: Draw | None) -> tuple[Array, DropoutCache]:
    """As the plain kernel: drop entries of x (...). Returns y (...)."""
    cache = DropoutCache(*kept(draw, x))
    return drop(x, cache), cache


def dropout_backward(dy: Array, cache: DropoutCache) -> tuple[Array]:
    """As the plain kernel: gradient (dx (...),)."""
    return (drop(dy, cache),)


def drop(x: Array, cache: DropoutCache) -> Array:
    """x·keep·s (...), forward and backward alike; x itself if nothing was dropped."""
    keep, scale = cache
    if keep is None:
        return x
    y = empty(x.shape, x.dtype)
    x_rows, keep_rows, y_rows = map(as_matrix, (x, keep, y))
    for rows in row_blocks(*y_rows.shape):
        block = np.multiply(x_rows[rows], keep_rows[rows], out=y_rows[rows])
        block *= scale
    return y


def residual_forward(x: Array, f: Array, draw: Draw | None) -> tuple[Array, ResidualCache]:
    """As the plain kernel: x + Drop(f), both (..., C). Returns y (..., C)."""
    expect_shape("f", f, "the shape of x", *x.shape)
    keep, scale = kept(draw, f)
    y = empty(x.shape, x.dtype)
    if keep is None:
        np.add(x, f, out=y)
    else:
        x_rows, f_rows, keep_rows, y_rows = map(as_matrix, (x, f, keep, y))
        for rows in row_blocks(*y_rows.shape):
            total = np.multiply(f_rows[rows], keep_rows[rows], out=y_rows[rows])
            total *= scale
            total += x_rows[rows]
    return y, ResidualCache(DropoutCache(keep, scale))


def residual_backward(dy: Array, cache: ResidualCache) -> tuple[Array, Array]:
    """As the plain kernel: gradients (dx (..., C), df (..., C))."""
    return dy, drop(dy, cache.dropout)


def post_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[Array, PostNormCache]:
    """As the plain kernel: normalise x + Drop(f), both (..., C), by gamma, beta (C,). Returns y (..., C)."""
    total, residual = residual_forward(x, f, draw)
    y, norm = layer_norm_forward(total, gamma, beta, eps)
    return y, PostNormCache(residual, norm)


def post_norm_backward(dy: Array, cache: PostNormCache) -> tuple[Array, Array, Array, Array]:
    """As the plain kernel: gradients (dx (..., C), df (..., C), dgamma (C,), dbeta (C,))."""
    dx, dgamma, dbeta = layer_norm_backward(dy, cache.norm)
    return dx, drop(dx, cache.residual.dropout), dgamma, dbeta


def add_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[tuple[Array, Array], AddNormCache]:
    """As the plain kernel: x + Drop(f), both (..., C), and its norm by gamma, beta (C,). Returns (total, normed)."""
    total, residual = residual_forward(x, f, draw)
    normed, norm = layer_norm_forward(total, gamma, beta, eps)
    return (total, normed), AddNormCache(residual, norm)


def add_norm_backward(dy: tuple[Array, Array], cache: AddNormCache) -> tuple[Array, Array, Array, Array]:
    """As the plain kernel: gradients (dx (..., C), df (..., C), dgamma (C,), dbeta (C,)) for dy = (dtotal, dnormed)."""
    dtotal, dnormed = dy
    expect_gradients(dtotal, cache.norm.x_hat.shape)
    dx, dgamma, dbeta = layer_norm_backward(dnormed, cache.norm)
    dx += dtotal
    return dx, drop(dx, cache.residual.dropout), dgamma, dbeta
