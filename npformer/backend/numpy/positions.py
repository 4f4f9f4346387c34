"""Position encodings from a cached table: sines and cosines depend only on the position.

The plain kernel computes the table in each call, in float64: 20 ns per number. The
learned table's gradient is added directly to the used rows, without a full table of zeros.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.functional.positions import (
    LearnedPositionsCache,
    SinusoidalPositionsCache,
    expect_positions,
    sinusoidal_table,
)
from npformer.typing import Array, HostArray


def sinusoidal_positions_forward(x: Array, offset: int = 0) -> tuple[Array, SinusoidalPositionsCache]:
    """As the plain kernel: add PE(offset), PE(offset + 1), … to x (..., T, C). Returns y (..., T, C)."""
    length, width = x.shape[-2:]
    table = _table(1 << (offset + length - 1).bit_length(), width, x.dtype)
    return np.add(x, table[offset : offset + length], out=empty(x.shape, x.dtype)), SinusoidalPositionsCache()


@lru_cache(maxsize=8)
def _table(rows: int, width: int, dtype: Any) -> HostArray:
    """PE(0 … rows − 1), (rows, width), read-only."""
    table: HostArray = sinusoidal_table(rows, width, 0, np.empty(0)).astype(dtype)
    table.flags.writeable = False
    return table


def sinusoidal_positions_backward(dy: Array, cache: SinusoidalPositionsCache, into: Into = ()) -> Array:
    """As the plain kernel: the gradient passes through unchanged."""
    return dy


def learned_positions_forward(x: Array, table: Array, offset: int = 0) -> tuple[Array, LearnedPositionsCache]:
    """As the plain kernel: add rows offset … offset + T − 1 of table (P, C) to x (..., T, C). Returns y (..., T, C)."""
    expect_positions(x, table, offset)
    rows = table[offset : offset + x.shape[-2]]
    return np.add(x, rows, out=empty(x.shape, x.dtype)), LearnedPositionsCache(offset, table.shape[0])


def learned_positions_backward(dy: Array, cache: LearnedPositionsCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., T, C), dtable (P, C))."""
    length = min(dy.shape[-2], cache.num_rows - cache.offset)
    expect_gradients(dy, (*dy.shape[:-2], length, dy.shape[-1]), into, (cache.num_rows, dy.shape[-1]))
    if len(into) != 1:
        return accumulate(F.learned_positions_backward(dy, cache), into)
    if into[0] is not None:
        used = into[0][cache.offset : cache.offset + dy.shape[-2]]
        used += dy.reshape(-1, *dy.shape[-2:]).sum(axis=0)  # (T, C)
    return dy
