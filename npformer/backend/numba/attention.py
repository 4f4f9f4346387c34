"""Attention a few sequences at a time, so that their scores stay in the cache; mask, softmax and dropout in one pass.

What backward needs of the mask costs no memory: weights are never negative, so the sign bit of a
kept weight says that dropout dropped it; and where nothing is dropped, weights are not kept at all but
computed again, which costs a product and an exponential and saves the largest of all arrays.

    kept weight    w ≥ 0     dropped weight    −w

Products run on head views as they are, and write into such views, so heads are split and merged
without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from npformer.backend.numba.compiling import inlined, kernel
from npformer.backend.numba.exponential import exponential
from npformer.backend.numba.maximum import comparable, largest
from npformer.backend.numba.philox import NOTHING_DROPPED, Numbers, draw_lanes, numbers, room_for_lanes
from npformer.backend.numba.rows import as_rows, contiguous
from npformer.backend.ops import Pair
from npformer.backend.workspace import empty
from npformer.functional.attention import expect_heads
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask, expect_key_visible
from npformer.functional.philox import Draw
from npformer.typing import Array

BYTES_AT_ONCE = 1 << 19
EVERYTHING = np.ones((1, 1), dtype=bool)
UNLIMITED = -1  # window or stride that is not there


class Pattern(NamedTuple):
    """What a kernel is told of an AttentionMask."""

    visible: Array  # (B, S), or EVERYTHING
    has_visible: bool
    causal: bool
    offset: int
    window: int
    stride: int

    def of(self, rows: slice) -> Pattern:
        """For these sequences alone."""
        return self._replace(visible=self.visible[rows]) if self.has_visible else self


class AttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)
    k: Array  # (B, H, S, D)
    v: Array  # (B, H, S, D)
    weights: Array | None  # (B, H, T, S), negative where dropped; None: nothing was dropped, they are computed again
    pattern: Pattern
    drawn: Numbers


def attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask = ALL_VISIBLE, draw: Draw | None = None
) -> tuple[Array, AttentionCache]:
    expect_heads(q, k, v)
    weights = None if draw is None else empty((*q.shape[:3], k.shape[2]), q.dtype)
    drawn = NOTHING_DROPPED if weights is None else numbers(draw, weights)
    kept = weights if drawn.threshold > 0 else None
    cache = AttentionCache(q, k, v, kept, _pattern(mask, k.shape[0], k.shape[2]), drawn)
    out = _heads_of_rows(q.shape, q.dtype)
    for rows in _few_sequences(q, k):
        _, dropped = _weigh(cache, rows)
        np.matmul(dropped, v[rows], out=out[rows])
    return out, cache


def attention_backward(
    dout: Array, cache: AttentionCache, into: Sequence[Array | None] = ()
) -> tuple[Array, Array, Array]:
    q, k, v, weights, _, drawn = cache
    dq, dk, dv = (_heads_of_rows(x.shape, x.dtype) for x in (q, k, v))
    v_turned = v.swapaxes(-1, -2)
    for rows in _few_sequences(q, k):
        if weights is None:
            some, dropped = _weigh(cache, rows)
        else:
            some = weights[rows]
            dropped = empty(some.shape, some.dtype)
            keep_positive(some.reshape(some.size), drawn.scale, dropped.reshape(some.size))
        np.matmul(dropped.swapaxes(-1, -2), dout[rows], out=dv[rows])
        dscores = np.matmul(dout[rows], v_turned[rows], out=empty(some.shape, some.dtype))
        softmax_rows_backward(as_rows(some), as_rows(dscores), drawn.scale, 1 / math.sqrt(q.shape[-1]))
        np.matmul(dscores, k[rows], out=dq[rows])
        np.matmul(dscores.swapaxes(-1, -2), q[rows], out=dk[rows])
    return dq, dk, dv


def _weigh(cache: AttentionCache, rows: slice) -> tuple[Array, Array]:
    """Signed and dropped weights of a few sequences; the signed ones are kept if the cache keeps them."""
    q, k, _, weights, pattern, drawn = cache
    some_q, some_k = q[rows], k[rows]
    heads, queries, width = q.shape[1:]
    keys = k.shape[2]
    some = empty((some_q.shape[0], heads, queries, keys), q.dtype) if weights is None else weights[rows]
    np.matmul(some_q, some_k.swapaxes(-1, -2), out=some)
    dropped = some if weights is None else empty(some.shape, some.dtype)
    here = drawn._replace(start=drawn.start + rows.start * heads * queries * keys)
    softmax_rows(
        as_rows(some), as_rows(dropped), heads, queries, *pattern.of(rows), 1 / math.sqrt(width), *here
    )  # fmt: skip
    return some, dropped


def _pattern(mask: AttentionMask, batch: int, keys: int) -> Pattern:
    """Raises ShapeError or DTypeError for a mask of another batch."""
    visible = EVERYTHING
    if mask.key_visible is not None:
        expect_key_visible(mask.key_visible, batch, keys)
        visible = contiguous(mask.key_visible)
    limits = (mask.window or UNLIMITED, mask.stride or UNLIMITED)
    return Pattern(visible, mask.key_visible is not None, mask.causal, mask.query_offset, *limits)


def _few_sequences(q: Array, k: Array) -> Iterator[slice]:
    """Sequences whose weights (·, H, T, S) fit into the cache together, at least one."""
    batch, heads, queries, _ = q.shape
    size = max(1, BYTES_AT_ONCE // max(1, heads * queries * k.shape[2] * q.itemsize))
    yield from (slice(first, min(first + size, batch)) for first in range(0, batch, size))


def _heads_of_rows(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Room for (B, H, T, D) in the order of (B, T, C), so that merging the heads is no copy."""
    batch, heads, length, width = shape
    return empty((batch, length, heads, width), dtype).transpose(0, 2, 1, 3)


@inlined
def _hide_far_keys(row, position, window, stride):
    """−∞ for the keys that neither window nor stride lets the query at position see."""
    for j in range(row.shape[0]):
        back = position - j
        near = window > 0 and -window < back < window
        if not near and not (stride > 0 and back % stride == 0):
            row[j] = -np.inf


@kernel("YYiiB??iiif" + "iiiiiif")
def softmax_rows(
    scores, dropped, heads, queries, visible, has_visible, causal, offset, window, stride, factor,
    seed, site, step, micro, start, threshold, scale,
):  # fmt: skip
    """Turn scores (B·H·T, S) into signed weights, and write the dropped weights."""
    keys = scores.shape[1]
    own = scores.dtype.type
    limit, grow, shrink = np.uint16(threshold), own(scale), own(factor)
    of_one = heads * queries
    words = room_for_lanes(of_one * keys if threshold > 0 else 0)
    lanes = words.view(np.uint16)
    compared = comparable(scores)
    nothing, nowhere = own(0), own(-np.inf)
    hidden = np.zeros(keys, scores.dtype)  # added to scores: 0 where a key is visible, −∞ where not
    base = 0
    for b in range(scores.shape[0] // max(of_one, 1)):
        if threshold > 0:
            base = draw_lanes(words, seed, site, step, micro, start + b * of_one * keys, of_one * keys)
        if has_visible:
            for j in range(keys):
                hidden[j] = nothing if visible[b, j] else nowhere
        for t in range(queries):
            end = min(max(t + offset + 1, 0), keys) if causal else keys
            for h in range(heads):
                i = (b * heads + h) * queries + t
                row = scores[i]
                for j in range(end):
                    row[j] = row[j] * shrink + hidden[j]
                for j in range(end, keys):
                    row[j] = nowhere
                if window > 0 or stride > 0:
                    _hide_far_keys(row, t + offset, window, stride)
                top = largest(compared[i])
                if top == nowhere:  # nothing to see: −∞ − (−∞) would be NaN
                    top = nothing
                for j in range(keys):
                    row[j] -= top
        flat = scores[b * of_one : (b + 1) * of_one].reshape(of_one * keys)
        for e in range(flat.size):  # in one run, since rows are shorter than vectors are long
            flat[e] = exponential(flat[e])
        for i in range(of_one):
            row, kept = scores[b * of_one + i], dropped[b * of_one + i]
            total = nothing
            for j in range(keys):
                total += row[j]
            inverse = own(1) / total if total > 0 else total  # 0 where nothing was seen; NaN stays NaN
            if threshold == 0:
                for j in range(keys):
                    row[j] *= inverse
                continue
            bits = lanes[base + i * keys : base + (i + 1) * keys]
            for j in range(keys):
                weight = row[j] * inverse
                keep = bits[j] >= limit
                row[j] = weight if keep else -weight
                kept[j] = weight * grow if keep else nothing


@kernel("xfy")
def keep_positive(weights, scale, kept):
    """The dropped weights again, from the signed ones."""
    grow, nothing = weights.dtype.type(scale), weights.dtype.type(0)
    for e in range(weights.size):
        kept[e] = nothing if weights[e] <= nothing else weights[e] * grow  # NaN stays NaN


@kernel("XYff")
def softmax_rows_backward(weights, dweights, scale, factor):
    """Turn the gradient of the dropped weights into that of the scores, both (B·H·T, S)."""
    own = weights.dtype.type
    grow, shrink, nothing = own(scale), own(factor), own(0)
    for i in range(weights.shape[0]):
        weight, d = weights[i], dweights[i]
        shared = nothing
        for j in range(weight.shape[0]):
            value = d[j] * grow if weight[j] > nothing else nothing
            d[j] = value
            shared += value * abs(weight[j])
        for j in range(weight.shape[0]):
            d[j] = abs(weight[j]) * (d[j] - shared) * shrink


ATTENTION = Pair(attention_forward, attention_backward)
