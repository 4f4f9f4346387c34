"""Post-LN in one pass over the rows: the residual sum is normalised while it is in the CPU cache.

The sum is computed in the memory of x̂, so it needs no array of its own. Backward computes df
from each block of dx before the block leaves the cache.
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
from npformer.functional.arrays import expect_shape
from npformer.functional.dropout import DropoutCache
from npformer.functional.philox import Draw
from npformer.functional.post_norm import PostNormCache
from npformer.functional.residual import ResidualCache
from npformer.typing import Array


def post_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, eps: float, draw: Draw | None
) -> tuple[Array, PostNormCache]:
    """As the plain kernel: normalise x + Drop(f), both (..., C), by gamma, beta (C,). Returns y (..., C)."""
    expect_shape("f", f, "the shape of x", *x.shape)
    expect_gain(x, gamma, beta)
    dropout, y, norm = DropoutCache(*kept(draw, f)), empty(x.shape, x.dtype), NormRows.for_shape(x, gamma, beta, eps)
    sums, y_rows = ResidualRows(x, f, dropout, norm.x_hat), as_matrix(y)
    for rows in row_blocks(*sums.shape):
        norm.write(sums.write(rows), rows, y_rows[rows])
    return y, PostNormCache(ResidualCache(dropout), norm.cache(x.shape))


def post_norm_backward(dy: Array, cache: PostNormCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C), df (..., C), dgamma (C,), dbeta (C,))."""
    expect_gradients(dy, cache.norm.x_hat.shape, into, cache.norm.gamma.shape, cache.norm.gamma.shape)
    slopes, dropped = NormSlopes(cache.norm), DropoutRows(cache.norm.x_hat, cache.residual.dropout)
    dx = empty(cache.norm.x_hat.shape, cache.norm.x_hat.dtype)
    dy_rows, dx_rows = as_matrix(dy), as_matrix(dx)
    for rows in row_blocks(*dx_rows.shape):
        slopes.write(dy_rows[rows], rows, dx_rows[rows])
        dropped.write(dx_rows[rows], rows)
    return accumulate((dx, dropped.result(dx), slopes.dgamma, slopes.dbeta), into)
