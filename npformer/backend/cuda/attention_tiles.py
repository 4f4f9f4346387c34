"""Attention in tiles that live in shared memory: a whole head per tile, or any length with memory linear in it."""

from __future__ import annotations

from typing import Any, NamedTuple

from npformer.backend.cuda.attention_question import Question, side_by_side, strided
from npformer.backend.cuda.device_runtime import DeviceRuntime
from npformer.typing import Array

#: The shared memory of a block's matrices in bytes, and the most rows of one matrix: as in ``attention_tiles.cuh``.
ROOM, MOST_ROWS = 46 * 1024, 64

#: The widest heads for which tiles still have enough rows to pay off.
WIDEST_HEAD = 256

#: Threads of a block. With more, most would wait while a product computes 4 × 4 numbers per thread.
THREADS = 128


class TilesCache(NamedTuple):
    question: Question
    out: Array  # (B, H, T, D)  kept for δ = g·o; the next linear map keeps the same array
    top: Array  # (B, H, T)  the largest score of a row
    inverse: Array  # (B, H, T)  1/Σ exp(s − top)
    whole_head: bool


def fits_one_tile(queries: int, keys: int, width: int, dtype: Any) -> bool:
    """Whether a head's q, k, v and weights fit into one block, forward and backward."""
    apart, weights = width | 1, queries * (keys | 1)
    forward = (2 * queries + keys) * apart + weights + 3 * queries
    backward = (queries + keys) * apart + 2 * weights + 2 * queries
    return max(queries, keys) <= MOST_ROWS and max(forward, backward) * dtype.itemsize <= ROOM


def tile_rows(matrices: int, width: int, dtype: Any) -> int:
    """The rows of a square tile, such that this many matrices (·, D) and the weights fit into a block."""
    rows = MOST_ROWS
    while (matrices * (width | 1) + (rows | 1) + 3) * rows * dtype.itemsize > ROOM:
        rows -= 4 if rows > 4 else 1
    return rows


def forward_by_tiles(gpu: DeviceRuntime, question: Question, whole_head: bool) -> tuple[Array, TilesCache]:
    """Attend; whole_head: a tile is a head. Returns out (B, H, T, D)."""
    q, k, v, pattern, draw, factor = question
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    rows, cols = (max(queries, 1), max(keys, 1)) if whole_head else (tile_rows(3, width, q.dtype),) * 2
    (out,) = side_by_side(gpu, 1, q)
    top, inverse = gpu.empty((batch, heads, queries), q.dtype), gpu.empty((batch, heads, queries), q.dtype)
    gpu.launch(
        "attention_tiles.attend", q.dtype, batch * heads * -(-queries // rows), THREADS,
        *strided(q, k, v, out), top, inverse, heads, queries, keys, width, rows, cols, factor, *pattern, *draw,
    )  # fmt: skip
    return out, TilesCache(question, out, top, inverse, whole_head)


def backward_by_tiles(gpu: DeviceRuntime, dout: Array, cache: TilesCache) -> tuple[Array, Array, Array]:
    """Gradients (dq, dk, dv)."""
    (q, k, v, pattern, draw, factor), out, top, inverse, whole_head = cache
    dq, dk, dv = cache.question.gradients(gpu)
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    sizes = (heads, queries, keys, width)
    if whole_head:
        gpu.launch(
            "attention_tiles.attend_backward", q.dtype, batch * heads, THREADS,
            *strided(dout, q, k, v, dq, dk, dv), top, inverse, *sizes, factor, *pattern, *draw,
        )  # fmt: skip
        return dq, dk, dv
    delta = gpu.empty(top.shape, q.dtype)
    rows = tile_rows(5, width, q.dtype)
    gpu.launch(
        "attention_long.attend_dqueries", q.dtype, batch * heads * -(-queries // rows), THREADS,
        *strided(dout, out, q, k, v, dq), top, inverse, delta, *sizes, rows, rows, factor, *pattern, *draw,
    )  # fmt: skip
    rows = tile_rows(6, width, q.dtype)
    gpu.launch(
        "attention_long.attend_dkeys", q.dtype, batch * heads * -(-keys // rows), THREADS,
        *strided(dout, q, k, v, dk, dv), top, inverse, delta, *sizes, rows, rows, factor, *pattern, *draw,
    )  # fmt: skip
    return dq, dk, dv
