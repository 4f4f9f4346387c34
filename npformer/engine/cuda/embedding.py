"""Token embedding by one kernel, its gradient by three: sort tokens, sum chunks, add rows that cross chunk edges."""

from __future__ import annotations

from typing import Any, NamedTuple

from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.ops import accumulate
from npformer.engine.cuda.device_runtime import DeviceRuntime, warps, whole_blocks
from npformer.functional.arrays import as_rows
from npformer.functional.embedding import expect_table
from npformer.typing import Array

#: The sorted tokens per block of ``add_chunks``, and the tokens per block of ``sort_tokens``.
CHUNK, TOGETHER = 16, 32


class EmbeddingCache(NamedTuple):
    tokens: Array  # (N,)  which rows were used
    num_rows: int  # V: the height of the table
    scale: float
    shape: tuple[int, ...]  # of y


def embedding_forward(
    gpu: DeviceRuntime, tokens: Array, table: Array, scale: float = 1.0
) -> tuple[Array, EmbeddingCache]:
    """As the plain pair, but an id outside the table gives NaN: a kernel cannot raise, and must not read beyond it."""
    expect_table(tokens, table)
    height, width = table.shape
    y = gpu.empty((*tokens.shape, width), table.dtype)
    ids = token_ids(gpu, tokens)
    if ids.size:
        gpu.launch(
            "embedding.take_rows", table.dtype, ids.size, warps(width, 256),
            ids, gpu.contiguous(table), y, height, width, float(scale),
        )  # fmt: skip
    return y, EmbeddingCache(ids, height, float(scale), y.shape)


def embedding_backward(gpu: DeviceRuntime, dy: Array, cache: EmbeddingCache, into: Into = ()) -> Any:
    expect_gradients(dy, cache.shape, into, (cache.num_rows, cache.shape[-1]))
    place = into[0] if into else None
    if into and place is None:  # frozen
        return None
    if place is not None and place.flags.c_contiguous:
        _add_rows(gpu, dy, cache, place)
        return None
    dtable = gpu.empty((cache.num_rows, dy.shape[-1]), dy.dtype)
    dtable[...] = 0
    _add_rows(gpu, dy, cache, dtable)
    return accumulate((dtable,), into)


def _add_rows(gpu: DeviceRuntime, dy: Array, cache: EmbeddingCache, dtable: Array) -> None:
    """dtable (V, C) += scale · the gradients of each row's tokens."""
    tokens, height, scale, _ = cache
    count, width = tokens.size, dy.shape[-1]
    if count == 0:
        return
    chunks = whole_blocks(count, CHUNK)
    order, ordered = gpu.empty((count,), tokens.dtype), gpu.empty((count,), tokens.dtype)
    gpu.launch("embedding.sort_tokens", dy.dtype, whole_blocks(count, TOGETHER), 256, tokens, order, ordered, count)
    edges = gpu.empty((chunks, 2, width), dy.dtype)
    sizes = (count, CHUNK, height, width, scale)
    rows = as_rows(gpu.contiguous(dy))
    gpu.launch("embedding.add_chunks", dy.dtype, chunks, warps(width), rows, order, ordered, dtable, edges, *sizes)
    if chunks > 1:
        gpu.launch("embedding.add_edges", dy.dtype, chunks, warps(width), edges, ordered, dtable, *sizes)


def token_ids(gpu: DeviceRuntime, tokens: Array) -> Array:
    """Token ids (N,) as the kernels take them: contiguous 64-bit integers."""
    flat = gpu.contiguous(tokens).reshape(tokens.size)
    return flat if flat.dtype == "int64" else flat.astype("int64")
