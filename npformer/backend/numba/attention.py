"""Attention a few sequences at a time, so that their scores stay in the cache; mask, softmax and dropout in one pass.

What backward needs of the mask costs no memory: weights are never negative, so the sign bit of a
kept weight says that dropout dropped it.

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
from npformer.backend.numba.philox import Numbers, draw_lanes, numbers, room_for_lanes
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


class AttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)
    k: Array  # (B, H, S, D)
    v: Array  # (B, H, S, D)
    weights: Array  # (B, H, T, S), negative where dropped
    drawn: Numbers


def attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask = ALL_VISIBLE, draw: Draw | None = None
) -> tuple[Array, AttentionCache]:
    expect_heads(q, k, v)
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    weights = empty((batch, heads, queries, keys), q.dtype)
    drawn = numbers(draw, weights)
    visible = EVERYTHING
    if mask.key_visible is not None:
        expect_key_visible(mask.key_visible, batch, keys)
        visible = contiguous(mask.key_visible)
    pattern = (mask.causal, mask.query_offset, mask.window or UNLIMITED, mask.stride or UNLIMITED)
    out = _heads_of_rows(q.shape, q.dtype)
    k_turned = k.swapaxes(-1, -2)  # (B, H, D, S)
    for rows in _few_sequences(weights):
        some = np.matmul(q[rows], k_turned[rows], out=weights[rows])
        dropped = empty(some.shape, some.dtype) if drawn.threshold else some
        here = drawn._replace(start=drawn.start + rows.start * heads * queries * keys)
        softmax_rows(
            as_rows(some), as_rows(dropped), heads, queries, visible if visible is EVERYTHING else visible[rows],
            visible is not EVERYTHING, *pattern, 1 / math.sqrt(width), *here,
        )  # fmt: skip
        np.matmul(dropped, v[rows], out=out[rows])
    return out, AttentionCache(q, k, v, weights, drawn)


def attention_backward(
    dout: Array, cache: AttentionCache, into: Sequence[Array | None] = ()
) -> tuple[Array, Array, Array]:
    q, k, v, weights, drawn = cache
    dq, dk, dv = (_heads_of_rows(x.shape, x.dtype) for x in (q, k, v))
    v_turned = v.swapaxes(-1, -2)
    for rows in _few_sequences(weights):
        some = weights[rows]
        dropped = some
        if drawn.threshold:
            dropped = empty(some.shape, some.dtype)
            keep_positive(some.reshape(some.size), drawn.scale, dropped.reshape(some.size))
        np.matmul(dropped.swapaxes(-1, -2), dout[rows], out=dv[rows])
        dscores = np.matmul(dout[rows], v_turned[rows], out=empty(some.shape, some.dtype))
        softmax_rows_backward(as_rows(some), as_rows(dscores), drawn.scale, 1 / math.sqrt(q.shape[-1]))
        np.matmul(dscores, k[rows], out=dq[rows])
        np.matmul(dscores.swapaxes(-1, -2), q[rows], out=dk[rows])
    return dq, dk, dv


def _few_sequences(weights: Array) -> Iterator[slice]:
    """Sequences whose weights (·, H, T, S) fit into the cache together, at least one."""
    batch = weights.shape[0]
    if weights.size == 0:
        yield slice(0, batch)
        return
    size = max(1, BYTES_AT_ONCE * batch // weights.nbytes)
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
        kept[e] = weights[e] * grow if weights[e] > nothing else nothing


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
