"""The residual sum and norm of pre-LN in one pass over the rows: each block is summed and normalised in the CPU cache.

Backward adds the stream's gradient to the norm's gradient and computes df from the sum, before
the block leaves the cache.
"""

from __future__ import annotations

from typing import Any

from npformer.backend.numpy.blocks import as_matrix, row_blocks
from npformer.backend.numpy.dropout import DropoutRows
from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.numpy.layer_norm import NormRows, NormSlopes, expect_gain
from npformer.backend.numpy.philox import kept
from npformer.backend.numpy.residual import ResidualRows
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.functional.add_norm import AddNormCache
from npformer.functional.arrays import expect_shape
from npformer.functional.dropout import DropoutCache
from npformer.functional.philox import Draw
from npformer.functional.residual import ResidualCache
from npformer.typing import Array


def add_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[tuple[Array, Array], AddNormCache]:
    """As the plain kernel: x + Drop(f), both (..., C), and its norm by gamma, beta (C,). Returns (total, normed)."""
    expect_shape("f", f, "the shape of x", *x.shape)
    expect_gain(x, gamma, beta)
    dropout, norm = DropoutCache(*kept(draw, f)), NormRows.for_shape(x, gamma, beta, eps)
    total, normed = empty(x.shape, x.dtype), empty(x.shape, x.dtype)
    sums, normed_rows = ResidualRows(x, f, dropout, total), as_matrix(normed)
    for rows in row_blocks(*sums.shape):
        norm.write(sums.write(rows), rows, normed_rows[rows])
    return (total, normed), AddNormCache(ResidualCache(dropout), norm.cache(x.shape))


def add_norm_backward(dy: tuple[Array, Array], cache: AddNormCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C), df (..., C), dgamma (C,), dbeta (C,)) for dy = (dtotal, dnormed)."""
    for each in dy:
        expect_gradients(each, cache.norm.x_hat.shape, into, cache.norm.gamma.shape, cache.norm.gamma.shape)
    slopes, dropped = NormSlopes(cache.norm), DropoutRows(cache.norm.x_hat, cache.residual.dropout)
    dx = empty(cache.norm.x_hat.shape, cache.norm.x_hat.dtype)
    dtotal_rows, dnormed_rows, dx_rows = as_matrix(dy[0]), as_matrix(dy[1]), as_matrix(dx)
    for rows in row_blocks(*dx_rows.shape):
        block = dx_rows[rows]
        slopes.write(dnormed_rows[rows], rows, block)
        block += dtotal_rows[rows]
        dropped.write(block, rows)
    return accumulate((dx, dropped.result(dx), slopes.dgamma, slopes.dbeta), into)
