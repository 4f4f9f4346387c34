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
    keep, scale = cache
    if keep is None:
        return x
    y = empty(x.shape, x.dtype)
    x_rows, keep_rows, y_rows = map(as_matrix, (x, keep, y))
    for rows in row_blocks(*y_rows.shape):
        block = np.multiply(x_rows[rows], keep_rows[rows], out=y_rows[rows])
        block *= scale
    return y
