"""Position encodings: a vector that depends on the position is added to each token.

Sinusoidal: position pos gets, for each pair of columns, a point on a circle,

    y = x + PE                      ω_i = 10000^(−2i/C)
    PE(pos, 2i) = sin(pos·ω_i)      PE(pos, 2i+1) = cos(pos·ω_i)

so PE(pos + k) is PE(pos) with each pair rotated by the angle k·ω_i (clockwise, since the sine comes first), for every
pos. There is no last position. With an odd C the last sine has no cosine. Nothing is learned.

Learned: row pos of a table (P, C) is added to the token at that position, in every sequence,

    y_t = x_t + table_{t+offset}

Backward. The sum hands dy on, and a row of the table was used by every sequence of the batch:

    dx = dy      dtable_{t+offset} = Σ_B dy_t

Rows that no position used have gradient 0.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5; learned: Gehring et al. 2017, arXiv:1705.03122.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from npformer.errors import ConfigError, ShapeError
from npformer.functional.arrays import device_of, expect_shape, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class SinusoidalPositionsCache(NamedTuple):
    """Empty: the gradient passes through unchanged."""


def sinusoidal_positions_forward(x: Array, offset: int = 0) -> tuple[Array, SinusoidalPositionsCache]:
    """Add PE(offset), PE(offset + 1), … to x (..., T, C). Returns y (..., T, C)."""
    xp = namespace(x)
    dtype = xp.float32 if x.dtype == xp.float32 else xp.float64
    table = sinusoidal_table(x.shape[-2], x.shape[-1], offset, x)  # (T, C)
    return x + xp.astype(table, dtype), SinusoidalPositionsCache()


def sinusoidal_positions_backward(dy: Array, cache: SinusoidalPositionsCache) -> tuple[Array]:
    """Gradient (dx (..., T, C),) of sinusoidal_positions_forward."""
    return (dy,)


def sinusoidal_table(length: int, width: int, offset: int, like: Array) -> Array:
    """PE(offset … offset + length − 1) as (length, width) float64, on the device of ``like``."""
    xp, device = namespace(like), device_of(like)
    position = xp.arange(offset, offset + length, dtype=xp.float64, device=device)  # (T,)
    pair = xp.arange((width + 1) // 2, dtype=xp.float64, device=device)  # (⌈C/2⌉,)
    omega = xp.exp(pair * (-2 * math.log(10000.0) / width))
    angle = xp.reshape(position, (-1, 1)) * omega  # (T, ⌈C/2⌉)
    circle = xp.stack([xp.sin(angle), xp.cos(angle)], axis=-1)  # (T, ⌈C/2⌉, 2)
    return xp.reshape(circle, (length, 2 * omega.shape[0]))[:, :width]


class LearnedPositionsCache(NamedTuple):
    offset: int
    num_rows: int  # P: the height of the table


def learned_positions_forward(x: Array, table: Array, offset: int = 0) -> tuple[Array, LearnedPositionsCache]:
    """Add rows offset … offset + T − 1 of table (P, C) to x (..., T, C). Returns y (..., T, C).

    Raises ShapeError if the table has too few rows or another width, ConfigError unless offset >= 0.
    """
    expect_positions(x, table, offset)
    length = x.shape[-2]
    return x + table[offset : offset + length, :], LearnedPositionsCache(offset, table.shape[0])


def learned_positions_backward(dy: Array, cache: LearnedPositionsCache) -> tuple[Array, Array]:
    """Gradients (dx (..., T, C), dtable (P, C)) of learned_positions_forward."""
    offset, num_rows = cache
    xp = namespace(dy)
    length, width = dy.shape[-2:]
    used = xp.sum(xp.reshape(dy, (-1, length, width)), axis=0)  # (T, C)
    before = xp.zeros((offset, width), dtype=dy.dtype, device=device_of(dy))
    after = xp.zeros((num_rows - offset - length, width), dtype=dy.dtype, device=device_of(dy))
    return dy, xp.concat([before, used, after], axis=0)


def expect_positions(x: Array, table: Array, offset: int) -> None:
    """Raise ShapeError or ConfigError for what learned_positions_forward cannot take."""
    expect_shape("table", table, "(P, C)", table.shape[0], x.shape[-1])
    if offset < 0:
        raise ConfigError(f"offset: expected an integer >= 0, got {offset}")
    last = offset + x.shape[-2]
    if last > table.shape[0]:
        raise ShapeError(
            f"x: expected at most {table.shape[0]} positions (max_seq_len), got {last}; "
            "raise max_seq_len, or use sinusoidal positions, which have no limit"
        )


SINUSOIDAL_POSITIONS = Operation(sinusoidal_positions_forward, sinusoidal_positions_backward)
LEARNED_POSITIONS = Operation(learned_positions_forward, learned_positions_backward, parameters=1)
