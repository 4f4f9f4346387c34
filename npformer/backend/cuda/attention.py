"""Attention in one of three ways, chosen only by the shapes and the window: a head in a block, products, or tiles.

    short       a whole head fits into the shared memory of one block: one kernel forward, one backward
    products    scores (B, H, T, S) in memory: two products and a kernel forward, four and a kernel backward
    tiles       for scores that would take too much memory, or of which a narrow window hides most

Products run on tensor cores and so are the fastest, but need memory for T·S weights per head, and three
kernels. The kernels of the other two ways (``attention_tiles``) keep two numbers per row. All three drop the
same weights, and all give 0 to a query that sees nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from npformer.backend.cuda.attention_products import ProductsCache, backward_by_products, forward_by_products
from npformer.backend.cuda.attention_question import Question, with_neighbours
from npformer.backend.cuda.attention_tiles import (
    WIDEST_HEAD,
    TilesCache,
    backward_by_tiles,
    fits_one_tile,
    forward_by_tiles,
)
from npformer.backend.cuda.device_runtime import DeviceRuntime
from npformer.backend.numpy.gradients import expect_gradients
from npformer.functional.attention import expect_heads
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask
from npformer.functional.philox import Draw
from npformer.typing import Array

#: The largest number of weights that one attention keeps in memory, 1 GiB of float32; above it, tiles are used.
MOST_WEIGHTS = 1 << 28

#: The time per pair of query and key in the tile kernels, relative to tensor cores; approximate.
PRICE_OF_A_PAIR = 8


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
    question = Question.asked(gpu, q, k, v, mask, draw)
    chosen = way(q, k, mask)
    if chosen == "products":
        return forward_by_products(gpu, question)
    return forward_by_tiles(gpu, question, whole_head=chosen == "short")


def attention_backward(
    gpu: DeviceRuntime, dout: Array, cache: ProductsCache | TilesCache, into: Sequence[Array | None] = ()
) -> tuple[Array, Array, Array]:
    expect_gradients(dout, cache.question.q.shape)
    dout = with_neighbours(gpu, dout)
    if isinstance(cache, ProductsCache):
        return backward_by_products(gpu, dout, cache)
    return backward_by_tiles(gpu, dout, cache)
