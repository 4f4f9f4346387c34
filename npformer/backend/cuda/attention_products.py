"""Attention by matrix products, with all scores in memory. One kernel between them does mask, softmax and dropout."""

from __future__ import annotations

from typing import NamedTuple

from npformer.backend.cuda.attention_question import Question, side_by_side
from npformer.backend.cuda.device_runtime import DeviceRuntime, whole_blocks
from npformer.typing import Array

#: Rows per block, one warp each, for rows of at most SHORT_ROW; a longer row takes a whole block.
ROWS, SHORT_ROW, THREADS = 8, 1024, 256


class ProductsCache(NamedTuple):
    question: Question
    weights: Array  # (B, H, T, S), negative where dropped


def _rows(weights: Array) -> tuple[int, int, int, int]:
    """(blocks, rows, keys, rows to a block) of the kernels, for weights (B, H, T, S)."""
    batch, heads, queries, keys = weights.shape
    rows, per_block = batch * heads * queries, ROWS if keys <= SHORT_ROW else 1
    return whole_blocks(rows, per_block), rows, keys, per_block


def forward_by_products(gpu: DeviceRuntime, question: Question) -> tuple[Array, ProductsCache]:
    """Attend. Returns out (B, H, T, D)."""
    q, k, v, pattern, draw, factor = question
    batch, heads, queries, _ = q.shape
    weights = gpu.empty((batch, heads, queries, k.shape[2]), q.dtype)
    gpu.product(q, k.swapaxes(-1, -2), weights)
    dropped = gpu.empty(weights.shape, q.dtype) if draw.threshold > 0 else None
    blocks, *rows = _rows(weights)
    gpu.launch(
        "attention_rows.weigh_rows", q.dtype, blocks, THREADS,
        weights, dropped, *rows, heads, queries, *pattern, factor, *draw,
    )  # fmt: skip
    (out,) = side_by_side(gpu, 1, q)
    gpu.product(weights if dropped is None else dropped, v, out)
    return out, ProductsCache(question, weights)


def backward_by_products(gpu: DeviceRuntime, dout: Array, cache: ProductsCache) -> tuple[Array, Array, Array]:
    """Gradients (dq, dk, dv)."""
    q, k, v, _, draw, factor = cache.question
    weights = cache.weights
    dq, dk, dv = cache.question.gradients(gpu)
    dscores = gpu.empty(weights.shape, weights.dtype)
    gpu.product(dout, v.swapaxes(-1, -2), dscores)
    dropped = gpu.empty(weights.shape, weights.dtype) if draw.threshold > 0 else None
    blocks, *rows = _rows(weights)
    gpu.launch(
        "attention_rows.weigh_rows_backward", q.dtype, blocks, THREADS,
        weights, dscores, dropped, *rows, factor, draw.scale,
    )  # fmt: skip
    gpu.product((weights if dropped is None else dropped).swapaxes(-1, -2), dout, dv)
    gpu.product(dscores, k, dq)
    gpu.product(dscores.swapaxes(-1, -2), q, dk)
    return dq, dk, dv
