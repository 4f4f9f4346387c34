"""Sinusoidal and learned position encodings by one kernel; a learned table's gradient is a sum over the batch."""

from __future__ import annotations

import math
from typing import Any

from npformer.backend.numpy.gradients import Into
from npformer.backend.numpy.positions import expect_of_positions
from npformer.engine.cuda.device_runtime import DeviceRuntime, whole_blocks
from npformer.engine.cuda.sums import column_sums
from npformer.functional.positions import LearnedPositionsCache, SinusoidalPositionsCache, expect_positions
from npformer.typing import Array

PIECE = 256  # columns (t, j) per block
BLOCKS = 1056  # enough to keep a large GPU busy


def _added(gpu: DeviceRuntime, x: Array, table: Array | None, offset: int) -> Array:
    """x (…, T, C) plus the positions from offset on."""
    y = gpu.empty(x.shape, x.dtype)
    length, width = x.shape[-2:]
    batch = math.prod(x.shape[:-2])
    if y.size:
        pieces = whole_blocks(length * width, PIECE)
        apart = min(batch, whole_blocks(BLOCKS, pieces))
        gpu.launch(
            "positions.add_positions", x.dtype, apart * pieces, PIECE,
            gpu.contiguous(x), table, y, batch, length, width, offset, PIECE, pieces,
        )  # fmt: skip
    return y


def sinusoidal_positions_forward(
    gpu: DeviceRuntime, x: Array, offset: int = 0
) -> tuple[Array, SinusoidalPositionsCache]:
    return _added(gpu, x, None, offset), SinusoidalPositionsCache()


def sinusoidal_positions_backward(gpu: DeviceRuntime, dy: Array, cache: SinusoidalPositionsCache) -> tuple[Array]:
    return (dy,)


def learned_positions_forward(
    gpu: DeviceRuntime, x: Array, table: Array, offset: int = 0
) -> tuple[Array, LearnedPositionsCache]:
    expect_positions(x, table, offset)
    return _added(gpu, x, gpu.contiguous(table), offset), LearnedPositionsCache(offset, table.shape[0])


def learned_positions_backward(gpu: DeviceRuntime, dy: Array, cache: LearnedPositionsCache, into: Into = ()) -> Any:
    expect_of_positions(dy, cache, into)
    (offset, num_rows), (length, width) = cache, dy.shape[-2:]
    if not into:
        dtable = gpu.empty((num_rows, width), dy.dtype)
        dtable[...] = 0
        _add_used(gpu, dy, dtable[offset : offset + length])
        return dy, dtable
    if into[0] is not None:  # not frozen
        _add_used(gpu, dy, into[0][offset : offset + length])
    return dy


def _add_used(gpu: DeviceRuntime, dy: Array, used: Array) -> None:
    """used (T, C) += the sum of dy (…, T, C) over all sequences."""
    rows = gpu.contiguous(dy).reshape(math.prod(dy.shape[:-2]), used.size)
    if used.flags.c_contiguous:
        column_sums(gpu, rows, used.reshape(used.size))
    else:
        used += column_sums(gpu, rows).reshape(used.shape)
