"""Attention in one of three ways, chosen only by the shapes and the window: a head in a block, products, or tiles.

    short       a whole head fits into the shared memory of one block: one kernel forward, one backward
    products    scores (B, H, T, S) in memory: two products and a kernel forward, four and a kernel backward
    tiles       for scores that would take too much memory, or of which a narrow window hides most

Products run on tensor cores and so are the fastest, but need memory for T·S weights per head, and three
kernels. The kernels of the other two ways (``attention_tiles.cu``, ``attention_long.cu``) keep two numbers per row.
All three drop the same weights, and all give 0 to a query that sees nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from npformer.backend.numpy.gradients import expect_gradients
from npformer.engine.cuda.attention_arguments import AttentionArguments, side_by_side, strided, with_neighbours
from npformer.engine.cuda.device_runtime import DeviceRuntime, whole_blocks
from npformer.functional.attention import expect_heads
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask
from npformer.functional.philox import Draw
from npformer.typing import Array

#: The largest number of weights that one attention keeps in memory, 1 GiB of float32; above it, tiles are used.
MOST_WEIGHTS = 1 << 28

#: The time per pair of query and key in the tile kernels, relative to tensor cores; approximate.
PRICE_OF_A_PAIR = 8

#: The shared memory of a block's matrices in bytes, and the most rows of one matrix: as in ``attention_tiles.cuh``.
ROOM, MOST_ROWS = 46 * 1024, 64

#: The widest heads for which tiles still have enough rows to pay off.
WIDEST_HEAD = 256

#: Rows per block of the kernel between products, one warp each, for rows of at most SHORT_ROW; a longer row takes a
#: whole block.
ROWS, SHORT_ROW, ROW_THREADS = 8, 1024, 256

#: Threads of a block of tiles. With more, most would wait while a product computes 4 × 4 numbers per thread.
TILE_THREADS = 128


class ProductsCache(NamedTuple):
    arguments: AttentionArguments
    weights: Array  # (B, H, T, S), negative where dropped


class TilesCache(NamedTuple):
    arguments: AttentionArguments
    out: Array  # (B, H, T, D)  kept for δ = g·o; the next linear map keeps the same array
    top: Array  # (B, H, T)  the largest score of a row
    inverse: Array  # (B, H, T)  1/Σ exp(s − top)
    whole_head: bool


def way(q: Array, k: Array, mask: AttentionMask) -> str:
    """The way that computes these: short, products or tiles, by their shapes and the mask's window."""
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    if fits_one_tile(queries, keys, width, q.dtype):
        return "short"
    if width > WIDEST_HEAD:
        return "products"
    weights = batch * heads * queries * keys
    seen = keys
    if mask.window is not None and mask.stride is None:
        seen = (1 if mask.causal else 2) * mask.window + 64  # at most so many keys per tile
    return "tiles" if weights == 0 or weights > MOST_WEIGHTS or seen * PRICE_OF_A_PAIR <= keys else "products"


def attention_forward(
    gpu: DeviceRuntime, q: Array, k: Array, v: Array, mask: AttentionMask = ALL_VISIBLE, draw: Draw | None = None
) -> tuple[Array, ProductsCache | TilesCache]:
    expect_heads(q, k, v)
    arguments = AttentionArguments.of(gpu, q, k, v, mask, draw)
    chosen = way(q, k, mask)
    if chosen == "products":
        return forward_by_products(gpu, arguments)
    return forward_by_tiles(gpu, arguments, whole_head=chosen == "short")


def attention_backward(
    gpu: DeviceRuntime, dout: Array, cache: ProductsCache | TilesCache
) -> tuple[Array, Array, Array]:
    expect_gradients(dout, cache.arguments.q.shape)
    dout = with_neighbours(gpu, dout)
    if isinstance(cache, ProductsCache):
        return backward_by_products(gpu, dout, cache)
    return backward_by_tiles(gpu, dout, cache)


def _rows(weights: Array) -> tuple[int, int, int, int]:
    """(blocks, rows, keys, rows to a block) of the kernels, for weights (B, H, T, S)."""
    batch, heads, queries, keys = weights.shape
    rows, per_block = batch * heads * queries, ROWS if keys <= SHORT_ROW else 1
    return whole_blocks(rows, per_block), rows, keys, per_block


def forward_by_products(gpu: DeviceRuntime, arguments: AttentionArguments) -> tuple[Array, ProductsCache]:
    """Attend. Returns out (B, H, T, D)."""
    q, k, v, pattern, draw, factor = arguments
    batch, heads, queries, _ = q.shape
    weights = gpu.empty((batch, heads, queries, k.shape[2]), q.dtype)
    dropped = gpu.empty(weights.shape, q.dtype) if draw.threshold > 0 else None
    (out,) = side_by_side(gpu, 1, q)
    after = weights if dropped is None else dropped
    lists = gpu.lists(q, k, v, weights, after, out)
    gpu.product(q, k.swapaxes(-1, -2), weights, lists=lists)
    blocks, *rows = _rows(weights)
    gpu.launch(
        "attention_rows.weigh_rows", q.dtype, blocks, ROW_THREADS,
        weights, dropped, *rows, heads, queries, *pattern, factor, *draw,
    )  # fmt: skip
    gpu.product(after, v, out, lists=lists)
    return out, ProductsCache(arguments, weights)


def backward_by_products(gpu: DeviceRuntime, dout: Array, cache: ProductsCache) -> tuple[Array, Array, Array]:
    """Gradients (dq, dk, dv)."""
    q, k, v, _, draw, factor = cache.arguments
    weights = cache.weights
    dq, dk, dv = cache.arguments.gradients(gpu)
    dscores = gpu.empty(weights.shape, weights.dtype)
    dropped = gpu.empty(weights.shape, weights.dtype) if draw.threshold > 0 else None
    after = weights if dropped is None else dropped
    lists = gpu.lists(q, k, v, after, dout, dscores, dq, dk, dv)
    gpu.product(dout, v.swapaxes(-1, -2), dscores, lists=lists)
    blocks, *rows = _rows(weights)
    gpu.launch(
        "attention_rows.weigh_rows_backward", q.dtype, blocks, ROW_THREADS,
        weights, dscores, dropped, *rows, factor, draw.scale,
    )  # fmt: skip
    gpu.product(after.swapaxes(-1, -2), dout, dv, lists=lists)
    gpu.product(dscores, k, dq, lists=lists)
    gpu.product(dscores.swapaxes(-1, -2), q, dk, lists=lists)
    return dq, dk, dv


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


def forward_by_tiles(gpu: DeviceRuntime, arguments: AttentionArguments, whole_head: bool) -> tuple[Array, TilesCache]:
    """Attend; whole_head: a tile is a head. Returns out (B, H, T, D)."""
    q, k, v, pattern, draw, factor = arguments
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    rows, cols = (max(queries, 1), max(keys, 1)) if whole_head else (tile_rows(3, width, q.dtype),) * 2
    (out,) = side_by_side(gpu, 1, q)
    top, inverse = gpu.empty((batch, heads, queries), q.dtype), gpu.empty((batch, heads, queries), q.dtype)
    gpu.launch(
        "attention_tiles.attend", q.dtype, batch * heads * -(-queries // rows), TILE_THREADS,
        *strided(q, k, v, out), top, inverse, heads, queries, keys, width, rows, cols, factor, *pattern, *draw,
    )  # fmt: skip
    return out, TilesCache(arguments, out, top, inverse, whole_head)


def backward_by_tiles(gpu: DeviceRuntime, dout: Array, cache: TilesCache) -> tuple[Array, Array, Array]:
    """Gradients (dq, dk, dv)."""
    (q, k, v, pattern, draw, factor), out, top, inverse, whole_head = cache
    dq, dk, dv = cache.arguments.gradients(gpu)
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    sizes = (heads, queries, keys, width)
    if whole_head:
        gpu.launch(
            "attention_tiles.attend_backward", q.dtype, batch * heads, TILE_THREADS,
            *strided(dout, q, k, v, dq, dk, dv), top, inverse, *sizes, factor, *pattern, *draw,
        )  # fmt: skip
        return dq, dk, dv
    delta = gpu.empty(top.shape, q.dtype)
    rows = tile_rows(5, width, q.dtype)
    gpu.launch(
        "attention_long.attend_dqueries", q.dtype, batch * heads * -(-queries // rows), TILE_THREADS,
        *strided(dout, out, q, k, v, dq), top, inverse, delta, *sizes, rows, rows, factor, *pattern, *draw,
    )  # fmt: skip
    rows = tile_rows(6, width, q.dtype)
    gpu.launch(
        "attention_long.attend_dkeys", q.dtype, batch * heads * -(-keys // rows), TILE_THREADS,
        *strided(dout, q, k, v, dk, dv), top, inverse, delta, *sizes, rows, rows, factor, *pattern, *draw,
    )  # fmt: skip
    return dq, dk, dv
