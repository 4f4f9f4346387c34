"""Attention with its softmax: one compiled call forward and one backward, over blocks of queries of one head.

The scores (n, S) of a block stay in the processor's cache through q kᵀ, softmax, dropout and the product with v,
however long the sequences are. With a causal mask a block reads only the keys that its last query sees.

Backward needs dropout's mask, which costs no memory: weights are never negative, so a set sign bit marks a weight
that dropout dropped. Without dropout, and if sequences are long, backward computes the weights again. This costs
one product and one exponential, and saves the largest of all arrays.

    kept weight    w ≥ 0     dropped weight    −w

Products run on head views as they are, and write into such views, so heads are split and merged
without a copy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from npformer.backend.numpy.gradients import expect_gradients
from npformer.backend.numpy.heads import empty_gradients, empty_heads
from npformer.backend.workspace import empty
from npformer.engine.numba.arguments import Cache, Heads, Mask, OutHeads, OutRows, OutVector, Vector, WholeRows
from npformer.engine.numba.compiling import inlined, kernel
from npformer.engine.numba.exponential import exponential
from npformer.engine.numba.linear import add_product
from npformer.engine.numba.maximum import comparable, largest
from npformer.engine.numba.philox import NOTHING_DROPPED, Numbers, draw_lanes, numbers, room_for_lanes
from npformer.engine.numba.products import borrow, for_blas, product
from npformer.engine.numba.recording import POSITION, Kept
from npformer.engine.numba.rows import contiguous
from npformer.functional.attention import expect_heads
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask, expect_key_visible
from npformer.functional.philox import Draw
from npformer.typing import Array

BYTES_AT_ONCE = 1 << 19  # of scores
KEPT_KEYS = 64  # weights over so many, no more than q, k and v, are kept though nothing is dropped
FEWEST = 128  # queries in a block, whatever their scores' size: each block reads all keys and values anew
EVERYTHING = np.ones((1, 1), dtype=bool)
NO_WEIGHTS = {letter: np.empty(0, letter) for letter in "fd"}
NOWHERE = np.empty((0, 0), np.int64)
UNLIMITED = -1  # window or stride that is not there


class Pattern(NamedTuple):
    """An AttentionMask as the kernels read it, but for its hidden keys."""

    hides_keys: bool
    causal: bool
    offset: int
    window: int
    stride: int


class AttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)
    k: Array  # (B, H, S, D)
    v: Array  # (B, H, S, D)
    weights: Array  # (B·H·T·S,)  negative where dropped, block after block; (0,): to be computed again
    at_once: int  # queries in a block
    visible: Array  # (B, S), or EVERYTHING
    pattern: Pattern
    drawn: Numbers


def attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask = ALL_VISIBLE, draw: Draw | None = None
) -> tuple[Array, AttentionCache]:
    expect_heads(q, k, v)
    if isinstance(k, Kept) and draw is None:
        out, visible = empty_heads(q), EVERYTHING if mask.key_visible is None else mask.key_visible
        attend_newest(q, k, v, visible, visible is not EVERYTHING, NOWHERE if k.now is None else k.now, out)
        return out, None  # type: ignore[return-value]
    visible, pattern = _pattern(mask, k.shape[0], k.shape[2])
    drawn, weights, few = NOTHING_DROPPED, NO_WEIGHTS[q.dtype.char], k.shape[2] <= KEPT_KEYS
    if draw is not None or few:
        every = empty((*q.shape[:3], k.shape[2]), q.dtype)
        drawn = numbers(draw, every)
        weights = every.reshape(every.size) if few or drawn.threshold > 0 else weights
    at_once = _queries_at_once(q.shape[2], k.shape[2], q.itemsize)
    cache = AttentionCache(for_blas(q), for_blas(k), for_blas(v), weights, at_once, visible, pattern, drawn)
    out = empty_heads(q)
    attend(*cache[:3], out, weights, at_once, _scores(1, cache), visible, pattern, 1 / math.sqrt(q.shape[3]), drawn)
    return out, cache


def attention_backward(dout: Array, cache: AttentionCache) -> tuple[Array, Array, Array]:
    q, k, v, weights, at_once, visible, pattern, drawn = cache
    expect_gradients(dout, q.shape)
    dq, dk, dv = empty_gradients(q, k, v)
    attend_backward(
        for_blas(dout), q, k, v, dq, dk, dv, weights, at_once, _scores(2, cache), visible, pattern,
        1 / math.sqrt(q.shape[3]), drawn,
    )  # fmt: skip
    return dq, dk, dv


def _queries_at_once(queries: int, keys: int, itemsize: int) -> int:
    """The number of queries in a block: their scores fit into the cache; at least FEWEST if there are as many."""
    return max(1, min(queries, max(FEWEST, BYTES_AT_ONCE // max(1, keys * itemsize))))


def _scores(count: int, cache: AttentionCache) -> Array:
    """Memory for the scores of a block, count times."""
    return empty((count, cache.at_once * cache.k.shape[2]), cache.q.dtype)


def _pattern(mask: AttentionMask, batch: int, keys: int) -> tuple[Array, Pattern]:
    """The visible keys, or EVERYTHING, and the rest. Raises ShapeError or DTypeError for a mask of another batch."""
    visible = EVERYTHING
    if mask.key_visible is not None:
        expect_key_visible(mask.key_visible, batch, keys)
        visible = contiguous(mask.key_visible)
    limits = int(mask.window or UNLIMITED), int(mask.stride or UNLIMITED)
    return visible, Pattern(mask.key_visible is not None, bool(mask.causal), int(mask.query_offset), *limits)


@inlined
def _hide_far_keys(row, position, window, stride):
    """−∞ for the keys that neither window nor stride lets the query at position see."""
    for j in range(row.shape[0]):
        back = position - j
        near = window > 0 and -window < back < window
        if not near and not (stride > 0 and back % stride == 0):
            row[j] = -np.inf


@inlined
def _draw_signs(weights, dropped, words, drawn, start, keys):
    """Give dropped weights (n, seen) of n queries a negative sign. The first one is number start of all weights."""
    dtype = weights.dtype.type
    limit, grow, zero = np.uint16(drawn.threshold), dtype(drawn.scale), dtype(0)
    lanes = borrow(words.view(np.uint16))
    count, seen = weights.shape
    at_once = count if seen == keys else 1  # rows whose numbers follow each other
    size = at_once * seen
    every, every_dropped = weights.reshape(weights.size), dropped.reshape(weights.size)
    for i in range(0, count, at_once):
        base = draw_lanes(words, drawn, start + i * keys, size)
        first = i * seen
        bits, some, kept = lanes[base : base + size], every[first : first + size], every_dropped[first : first + size]
        for e in range(size):
            keep, weight = bits[e] >= limit, some[e]
            kept[e] = weight * grow if keep else zero
            some[e] = weight if keep else -weight


@inlined
def _weigh(q, k, scores, hidden, first, pattern, factor):
    """scores (n, seen) = softmax(q kᵀ·factor + hidden) of the queries at position first and after it."""
    dtype = scores.dtype.type
    shrink, zero, neg_inf = dtype(factor), dtype(0), dtype(-np.inf)
    count, seen = scores.shape
    product(q, k.T, 0, scores)
    compared = comparable(scores)
    for i in range(count):
        end = min(max(first + i + 1, 0), seen) if pattern.causal else seen
        row = scores[i]
        for j in range(seen):
            score = row[j] * shrink + hidden[j]
            row[j] = score if j < end else neg_inf
        if pattern.window > 0 or pattern.stride > 0:
            _hide_far_keys(row, first + i, pattern.window, pattern.stride)
        top = largest(compared[i])
        if top == neg_inf:  # nothing to see: −∞ − (−∞) would be NaN
            top = zero
        for j in range(seen):
            row[j] -= top
    flat = scores.reshape(scores.size)
    for e in range(flat.size):  # in one run, since rows may be shorter than vectors are long
        flat[e] = exponential(flat[e])
    for i in range(count):
        row = scores[i]
        total = zero
        for j in range(seen):
            total += row[j]
        inverse = dtype(1) / total if total > 0 else total  # 0 where nothing was seen; NaN stays NaN
        for j in range(seen):
            row[j] *= inverse


@inlined
def _hide_keys(visible, b, hidden):
    """hidden (S,), what is added to scores: 0 where a key of sequence b is visible, −∞ where not."""
    for j in range(hidden.size):
        hidden[j] = 0 if visible[b, j] else -np.inf


@inlined
def _keys_seen(last, causal, keys):
    """The number of keys that a block may see whose last query is at position last."""
    return min(max(last + 1, 0), keys) if causal else keys


@kernel(calls="attention.forward")
def attend(
    q: Heads, k: Heads, v: Heads, out: OutHeads, weights: OutVector, at_once: int, scores: OutRows, visible: Mask,
    pattern: Pattern, factor: float, drawn: Numbers,
):  # fmt: skip
    """Write out, and the weights if they are kept, with the signs of dropout."""
    q, k, v, out, weights, scores = borrow(q), borrow(k), borrow(v), borrow(out), borrow(weights), borrow(scores)
    (batch, heads, queries, _), keys = q.shape, k.shape[2]
    words = room_for_lanes(at_once * keys if drawn.threshold > 0 else 0)
    hidden = np.zeros(keys, q.dtype)
    for b in range(batch):
        if pattern.hides_keys:
            _hide_keys(visible, b, hidden)
        for h in range(heads):
            for t in range(0, queries, at_once):
                end = min(t + at_once, queries)
                seen = _keys_seen(end - 1 + pattern.offset, pattern.causal, keys)
                size, place = (end - t) * seen, ((b * heads + h) * queries + t) * keys
                here = dropped = scores[0, :size].reshape(end - t, seen)
                if weights.size > 0:
                    here = weights[place : place + size].reshape(end - t, seen)
                _weigh(q[b, h, t:end], k[b, h, :seen], here, hidden, t + pattern.offset, pattern, factor)
                if drawn.threshold > 0:
                    _draw_signs(here, dropped, words, drawn, place, keys)
                elif weights.size > 0:
                    dropped = here
                product(dropped, v[b, h, :seen], 0, out[b, h, t:end])


@inlined
def _keep_positive(weights, scale, kept):
    """Turn signed weights into dropped ones: 0 where the sign is negative."""
    grow, zero = weights.dtype.type(scale), weights.dtype.type(0)
    for e in range(weights.size):
        kept[e] = zero if weights[e] <= zero else weights[e] * grow  # NaN stays NaN


@inlined
def _weigh_backward(weights, dweights, scale, factor):
    """Turn the gradient of the dropped weights (n, seen) into that of the products of queries and keys."""
    dtype = weights.dtype.type
    grow, shrink, zero = dtype(scale), dtype(factor), dtype(0)
    for i in range(weights.shape[0]):
        weight, d = weights[i], dweights[i]
        for j in range(weight.shape[0]):
            d[j] = d[j] * grow if weight[j] > zero else zero
        shared = zero
        for j in range(weight.shape[0]):
            shared += d[j] * abs(weight[j])
        for j in range(weight.shape[0]):
            d[j] = abs(weight[j]) * (d[j] - shared) * shrink


@kernel(calls="attention.backward")
def attend_backward(
    dout: Heads, q: Heads, k: Heads, v: Heads, dq: OutHeads, dk: OutHeads, dv: OutHeads, weights: Vector, at_once: int,
    scores: OutRows, visible: Mask, pattern: Pattern, factor: float, drawn: Numbers,
):  # fmt: skip
    """Write dq, dk and dv."""
    dout, q, k, v, dq, dk, dv = borrow(dout), borrow(q), borrow(k), borrow(v), borrow(dq), borrow(dk), borrow(dv)
    weights, scores = borrow(weights), borrow(scores)
    (batch, heads, queries, _), keys = q.shape, k.shape[2]
    hidden = np.zeros(keys, q.dtype)
    first = _keys_seen(at_once - 1 + pattern.offset, pattern.causal, keys) if queries > 0 else 0  # by the first block
    for b in range(batch):
        if pattern.hides_keys:
            _hide_keys(visible, b, hidden)
        for h in range(heads):
            dk[b, h, first:], dv[b, h, first:] = 0, 0
            for t in range(0, queries, at_once):
                end = min(t + at_once, queries)
                seen = _keys_seen(end - 1 + pattern.offset, pattern.causal, keys)
                size, place = (end - t) * seen, ((b * heads + h) * queries + t) * keys
                some_q, some_dout, some_k = q[b, h, t:end], dout[b, h, t:end], k[b, h, :seen]
                dropped, dscores = scores[0, :size].reshape(end - t, seen), scores[1, :size].reshape(end - t, seen)
                if weights.size > 0:
                    signed = weights[place : place + size]
                    here = signed.reshape(end - t, seen)
                    if drawn.threshold > 0:
                        _keep_positive(signed, drawn.scale, scores[0])
                    else:
                        dropped = here
                else:
                    _weigh(some_q, some_k, dropped, hidden, t + pattern.offset, pattern, factor)
                    here = dropped
                beta = 0 if t == 0 else 1
                product(dropped.T, some_dout, beta, dv[b, h, :seen])
                product(some_dout, v[b, h, :seen].T, 0, dscores)
                _weigh_backward(here, dscores, drawn.scale, factor)
                product(dscores, some_k, 0, dq[b, h, t:end])
                product(dscores.T, some_q, beta, dk[b, h, :seen])


@inlined
def softmax_of_visible(scores, visible, hides, scale):
    """Softmax of scores (S,) in place, over the visible keys; all weights are 0 if no key is visible."""
    dtype = scores.dtype.type
    neg_inf, zero = dtype(-np.inf), dtype(0)
    for j in range(scores.shape[0]):
        scores[j] = scores[j] * scale if not hides or visible[j] else neg_inf
    top = largest(comparable(scores))
    if top == neg_inf:
        scores[:] = zero
        return
    total = zero
    for j in range(scores.shape[0]):
        scores[j] = exponential(scores[j] - top)
    for j in range(scores.shape[0]):
        total += scores[j]
    inverse = dtype(1) / total
    for j in range(scores.shape[0]):
        scores[j] *= inverse


@kernel(calls="decoding")
def attend_newest(
    q: Heads, keys: Cache, values: Cache, visible: Mask, hides: bool, now: WholeRows, out: OutHeads
):  # fmt: skip
    """Write out from q, both (B, H, n, D), over keys and values (B, H, S, D), or those up to the position of now."""
    q, keys, values, out = borrow(q), borrow(keys), borrow(values), borrow(out)
    (batch, heads, count, width), dtype = q.shape, q.dtype.type
    stop = now[POSITION, 0] + 1 if now.size > 0 else keys.shape[2]
    scores, query, mixed = np.empty(stop, q.dtype), np.empty(width, q.dtype), np.empty(width, q.dtype)
    for b in range(batch):
        for h in range(heads):
            some_keys, some_values = keys[b, h], values[b, h]
            for t in range(count):
                for i in range(width):
                    query[i], mixed[i] = q[b, h, t, i], dtype(0)
                for j in range(stop):
                    key, total = some_keys[j], dtype(0)
                    for i in range(width):
                        total += query[i] * key[i]
                    scores[j] = total
                softmax_of_visible(scores, visible[min(b, visible.shape[0] - 1)], hides, dtype(1 / math.sqrt(width)))
                add_product(scores, some_values, 0, 0, mixed)
                for i in range(width):
                    out[b, h, t, i] = mixed[i]
