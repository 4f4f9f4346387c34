"""The gradient of learned positions, added to the rows of the table that were used, sequence by sequence."""

from __future__ import annotations

from typing import Any

from npformer.backend.numpy import positions
from npformer.engine.numba.arguments import OutRows, Rows
from npformer.engine.numba.compiling import kernel
from npformer.engine.numba.rows import contiguous_rows
from npformer.functional.positions import LearnedPositionsCache
from npformer.typing import Array


def learned_positions_forward(x: Array, table: Array, offset: int = 0) -> tuple[Array, LearnedPositionsCache]:
    return positions.learned_positions_forward(x, table, offset)


def learned_positions_backward(dy: Array, cache: LearnedPositionsCache, into: Any = ()) -> Any:
    if len(into) != 1 or into[0] is None or not into[0].flags.c_contiguous:
        return positions.learned_positions_backward(dy, cache, into)
    positions.expect_of_positions(dy, cache, into)
    add_sequences(contiguous_rows(dy), into[0][cache.offset : cache.offset + dy.shape[-2]])
    return dy


@kernel(calls="learned_positions.backward")
def add_sequences(dy: Rows, table: OutRows):
    """table (T, C) += Σ_b dy, the rows (B·T, C) of B sequences."""
    length, width = table.shape
    for n in range(dy.shape[0]):
        row, some = table[n % length], dy[n]
        for j in range(width):
            row[j] += some[j]
