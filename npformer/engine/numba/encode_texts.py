"""Encodes whole texts in one kernel, for decoding: without dropout, and without a cache for a backward.

    post-LN   x ← LN(x + f(x))      pre-LN   x ← x + f(LN(x))      f = self-attention, feed-forward

The kernel reads arrays by address, since unpacking the arrays of a small encoder would take longer than computing.
So the shape of every array is checked before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.fallback import takes_real
from npformer.backend.workspace import address, empty
from npformer.engine.numba.arguments import Mask, OutRows, Whole, WholeRows
from npformer.engine.numba.compiling import inlined, kernel
from npformer.engine.numba.decode_parts import SUB_LAYER, add_products, columns, feed_forward, norm, softmax_of_visible
from npformer.engine.numba.decode_step import are, attention_shapes, feed_forward_shapes
from npformer.engine.numba.products import product
from npformer.engine.numba.work_sharing import matrix, vector
from npformer.typing import Array

QUERIES = 64  # whose scores are computed at a time


class Options(NamedTuple):
    """The sizes and options of an encoder."""

    heads: int
    width: int  # F
    is_pre: bool
    is_gelu: bool


class TextEncoder:
    """A prepared encoder for any number of batches."""

    def __init__(self, encoder: Any) -> None:
        first = encoder.layers[0]
        self._kept, self._eps, self._dtype = encoder, encoder.eps, first.weights[0].dtype
        self._layers = np.array([[address(x) for x in layer.weights] for layer in encoder.layers])
        self._final = np.array([0, 0] if encoder.norm is None else [address(x) for x in encoder.norm])
        self._c, width = first.weights[6].shape
        self._options = Options(first.heads, width, first.norm_order == "pre", first.activation == "gelu")

    def __call__(self, x: Array, visible: Array) -> Array | None:
        """From x (B, S, C) and visible (B, S) to memory (B, S, C); None if shape or dtype does not fit the weights."""
        if x.shape != (*visible.shape, self._c) or x.dtype != self._dtype:
            return None
        memory = empty(x.shape, x.dtype)
        rows = (-1, self._c)
        encode_texts(
            self._layers, self._final, self._options, x.copy().reshape(rows), memory.reshape(rows),
            np.ascontiguousarray(visible), self._eps,
        )  # fmt: skip
        return memory


def encoder_of_texts(encoder: Any) -> TextEncoder | None:
    """Prepare an encoder; None if no kernel fits it."""
    if not (encoder.layers and takes_real(encoder.layers[0].weights[0].dtype.char)):
        return None
    first = encoder.layers[0]
    c, f = first.weights[6].shape
    layer = [*attention_shapes(c), *feed_forward_shapes(c, f)]
    if c % first.heads or any(each[:3] != first[:3] for each in encoder.layers):
        return None
    weights = [pair for each in encoder.layers for pair in zip(each.weights, layer, strict=True)]
    norm = zip(encoder.norm or (), [(c,), (c,)], strict=False)
    return TextEncoder(encoder) if are([*weights, *norm], first.weights[0].dtype) else None


@inlined
def attend_to_texts(qkv, visible, heads, mixed):
    """Write mixed (B·S, C) from qkv (B·S, 3C): self-attention of each text, head by head."""
    (texts, tokens), c = visible.shape, mixed.shape[1]
    width = c // heads
    scale, room = qkv.dtype.type(1 / math.sqrt(width)), np.empty((min(tokens, QUERIES), tokens), qkv.dtype)
    for b in range(texts):
        qkv_of_text, mixed_of_text = qkv[b * tokens : (b + 1) * tokens], mixed[b * tokens : (b + 1) * tokens]
        for i in range(0, c, width):
            keys, values = qkv_of_text[:, c + i : c + i + width], qkv_of_text[:, 2 * c + i : 2 * c + i + width]
            for t in range(0, tokens, QUERIES):
                queries = qkv_of_text[t : t + QUERIES, i : i + width]
                scores = room[: queries.shape[0]]
                product(queries, keys.T, 0, scores)
                for j in range(scores.shape[0]):
                    softmax_of_visible(scores[j], visible[b], scale)
                product(scores, values, 0, mixed_of_text[t : t + QUERIES, i : i + width])


@inlined
def add_and_norm(x, f, at, eps, is_post):
    """x (n, C) += f + bias, and then LN(x) in post-LN. at holds the addresses of bias, γ and β."""
    bias = vector(at[0], x.shape[1], x)
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[r, j] += f[r, j] + bias[j]
        if is_post:
            norm(x[r], at[1:], eps, x[r])


@inlined
def norms(x, at, eps, y):
    """y (n, C) = LN(x). at (2,) holds the addresses of γ and β; if they are 0, y is a copy of x."""
    for r in range(x.shape[0]):
        if at[0] != 0:
            norm(x[r], at, eps, y[r])
        else:
            for j in range(x.shape[1]):
                y[r, j] = x[r, j]


@kernel(calls="encoder_of_texts")
def encode_texts(
    layers: WholeRows, final: Whole, options: Options, x: OutRows, memory: OutRows, visible: Mask, eps: float
):  # fmt: skip
    """Write memory (B·S, C) from x (B·S, C), which is overwritten."""
    rows, c = x.shape
    qkv, mixed, f = np.empty((rows, 3 * c), x.dtype), np.empty((rows, c), x.dtype), np.empty((rows, c), x.dtype)
    is_pre, no_norm = options.is_pre, np.zeros(2, np.int64)
    for at in layers:
        norms(x, at[4:SUB_LAYER] if is_pre else no_norm, eps, memory)
        columns(memory, at, 0, 3 * c, qkv)
        attend_to_texts(qkv, visible, options.heads, mixed)
        f[:] = x.dtype.type(0)
        add_products(mixed, matrix(at[2], c, c, x), f)
        add_and_norm(x, f, at[3:], eps, not is_pre)
        norms(x, at[SUB_LAYER + 4 :] if is_pre else no_norm, eps, memory)
        f[:] = x.dtype.type(0)
        feed_forward(memory, at[SUB_LAYER:], options, 0, options.width, f)
        add_and_norm(x, f, at[SUB_LAYER + 3 :], eps, not is_pre)
    norms(x, final, eps, memory)
