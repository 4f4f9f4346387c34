"""Dropout that multiplies by the mask, where the plain kernel selects with ``where``.

``np.where`` takes ten times as long as a multiplication; ``x·keep`` with a boolean mask takes 0.14 ns per
number. (So a dropped infinity becomes NaN, not 0; a run with an infinity has diverged anyway.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.numpy.blocks import as_matrix, row_blocks
from npformer.backend.numpy.gradients import Into
from npformer.backend.numpy.philox import kept
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.functional.dropout import DropoutCache
from npformer.functional.philox import Draw
from npformer.typing import Array


def dropout_forward(x: Array, draw: Draw | None) -> tuple[Array, DropoutCache]:
    """As the plain kernel: drop entries of x (...). Returns y (...)."""
    cache = DropoutCache(*kept(draw, x))
    return drop(x, cache), cache


def dropout_backward(dy: Array, cache: DropoutCache, into: Into = ()) -> Any:
    """As the plain kernel: gradient (dx (...),)."""
    return accumulate((drop(dy, cache),), into)


def drop(x: Array, cache: DropoutCache) -> Array:
    """x·keep·s (...), forward and backward alike; x itself if nothing was dropped."""
    dropped, x_rows = DropoutRows(x, cache), as_matrix(x)
    for rows in row_blocks(*x_rows.shape) if cache.keep is not None else ():
        dropped.write(x_rows[rows], rows)
    return dropped.result(x)


class DropoutRows:
    """x·keep·s a few rows at a time, for an array of the shape of ``like`` (..., C)."""

    def __init__(self, like: Array, cache: DropoutCache) -> None:
        self.keep, self.scale = cache
        if self.keep is not None:
            self.y = empty(like.shape, like.dtype)
            self.y_rows, self.keep_rows = as_matrix(self.y), as_matrix(self.keep)

    def write(self, x: Array, rows: slice) -> None:
        """Write these rows of the whole for x (n, C)."""
        if self.keep is not None:
            block = np.multiply(x, self.keep_rows[rows], out=self.y_rows[rows])
            block *= self.scale

    def result(self, x: Array) -> Array:
        """The array written so far, or x itself if nothing was dropped."""
        return x if self.keep is None else self.y
