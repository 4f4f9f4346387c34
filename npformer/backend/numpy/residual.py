"""The residual sum without temporaries: x + f·keep·s is computed in the output array, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, row_blocks
from npformer.backend.numpy.dropout import drop
from npformer.backend.numpy.gradients import Into
from npformer.backend.numpy.philox import kept
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.functional.arrays import expect_shape
from npformer.functional.dropout import DropoutCache
from npformer.functional.philox import Draw
from npformer.functional.residual import ResidualCache
from npformer.typing import Array


def residual_forward(x: Array, f: Array, draw: Draw | None) -> tuple[Array, ResidualCache]:
    """As the plain kernel: x + Drop(f), both (..., C). Returns y (..., C)."""
    expect_shape("f", f, "the shape of x", *x.shape)
    y, dropout = empty(x.shape, x.dtype), DropoutCache(*kept(draw, f))
    sums = ResidualRows(x, f, dropout, y)
    for rows in row_blocks(*sums.shape):
        sums.write(rows)
    return y, ResidualCache(dropout)


def residual_backward(dy: Array, cache: ResidualCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., C), df (..., C))."""
    return accumulate((dy, drop(dy, cache.dropout)), into)


class ResidualRows:
    """x + Drop(f), both (..., C), written into ``total`` a few rows at a time."""

    def __init__(self, x: Array, f: Array, dropout: DropoutCache, total: Array) -> None:
        self.x, self.f, self.total = as_matrix(x), as_matrix(f), as_matrix(total)
        self.keep = None if dropout.keep is None else as_matrix(dropout.keep)
        self.scale = dropout.scale
        self.shape = self.total.shape

    def write(self, rows: slice) -> Array:
        """Write some rows; returns them, (n, C)."""
        total = self.total[rows]
        if self.keep is None:
            return np.add(self.x[rows], self.f[rows], out=total)
        np.multiply(self.f[rows], self.keep[rows], out=total)
        total *= self.scale
        total += self.x[rows]
        return total
