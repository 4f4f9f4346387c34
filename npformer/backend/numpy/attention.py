"""Attention a few sequences at a time, so that their scores stay in the CPU cache from product to product.

The forward keeps E = exp(scores), 0 where hidden, and one number for each query, i = 1/Σ_S E. The
weights are E·i. But i, times dropout's scale, multiplies the narrow output instead of the weights:

    out = s·i·((E·keep) V)

Backward, with g = s·i·dout, does not form the weights either:

    dV = (E·keep)ᵀ g      G = keep·(g Vᵀ)      dscores = E·(G − i·Σ_S E·G)

exp is taken without subtracting each row's maximum, which NumPy computes slowly (1 to 3 ns per
number for short rows; exp itself takes 0.3). That is exact as long as the sum of a row is
moderate. If a sum is not (scores beyond about ±30, a query that sees nothing), its block is
computed again, with the maxima of such rows. The sums are dot products of rows, so that a row depends
only on itself, to the bit. Heads are views: every product reads and writes (B, T, H, D) in place.

A mask is an upper bound of each score: +inf for a visible pair, -inf for a hidden one. The minimum of a score and its
bound is the score, or -inf for a hidden pair, in one pass. The values at hidden positions then change no bit of any
result. The part that depends only on positions is cached for the next call. key_visible is left out if every key is
visible, which one pass over (B, S) tells.

A bias is added to the scores before the mask is applied. Its gradient is the gradient of the scores, summed
over the sequences of a block while they are in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.numpy.blocks import blocks_of, filled
from npformer.backend.numpy.gradients import expect_gradients
from npformer.backend.numpy.heads import empty_gradients, empty_heads, row_factors
from npformer.backend.numpy.philox import kept
from npformer.backend.workspace import empty, read_only
from npformer.functional.arrays import expect_shape
from npformer.functional.attention import expect_heads
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask
from npformer.functional.philox import Draw
from npformer.typing import Array, HostArray

MODERATE = (1e-15, 1e15)  # sums of powers for which no maximum needs to be subtracted


class Powers(NamedTuple):
    powers: Array  # (B, H, T, S)  E
    inverse: Array  # (B, H, T, 1)  i
    keep: HostArray | None  # (B, H, T, S)
    scale: float  # s


class AttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)
    k: Array  # (B, H, S, D)
    v: Array  # (B, H, S, D)
    kept: Powers


def attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask = ALL_VISIBLE, draw: Draw | None = None
) -> tuple[Array, AttentionCache]:
    """As the plain kernel: q (B, H, T, D) attends to k and v (B, H, S, D). Returns out (B, H, T, D)."""
    return _forward(q, k, v, None, mask, draw)


def biased_attention_forward(
    q: Array, k: Array, v: Array, bias: Array, mask: AttentionMask = ALL_VISIBLE, draw: Draw | None = None
) -> tuple[Array, AttentionCache]:
    """As the plain kernel: q (B, H, T, D) attends to k and v (B, H, S, D) with bias (H, T, S). Returns out."""
    return _forward(q, k, v, bias, mask, draw)


def _forward(
    q: Array, k: Array, v: Array, bias: Array | None, mask: AttentionMask, draw: Draw | None
) -> tuple[Array, AttentionCache]:
    expect_heads(q, k, v)
    if bias is not None:
        expect_shape("bias", bias, "(H, T, S)", *q.shape[1:3], k.shape[2])
    caps = score_caps(mask, q.shape[2], k.shape[2], q)

    def write_scores(rows: slice, scores: Array) -> None:
        np.matmul(q[rows], k[rows].swapaxes(2, 3), out=scores)
        scores *= 1 / math.sqrt(q.shape[3])
        if bias is not None:
            scores += bias
        if caps is not None:
            np.fmin(scores, caps if caps.ndim == 2 else caps[rows], out=scores)  # fmin: a hidden NaN is hidden too

    def mix(weights: Array, rows: slice, out: Array) -> None:
        np.matmul(weights, v[rows], out=out)

    out, powers = attend(q, k.shape[2], draw, write_scores, mix)
    return out, AttentionCache(q, k, v, powers)


def attend(
    q: Array,
    width: int,
    draw: Draw | None,
    write_scores: Callable[[slice, Array], None],
    mix: Callable[[Array, slice, Array], None],
) -> tuple[Array, Powers]:
    """The output (B, H, T, D) of queries q that look at width keys each, block by block of sequences.

    write_scores(rows, scores) writes a block's scores (b, H, T, width), -inf where hidden; mix(weights, rows, out)
    writes Σ weight·v.
    """
    powers = empty((*q.shape[:3], width), q.dtype)
    keep, scale = kept(draw, powers)
    out, sums = empty_heads(q), empty((*q.shape[:3], 1), q.dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # of sums that are not moderate
        for rows in blocks_of(powers):
            block = powers[rows]
            _write_powers(partial(write_scores, rows, block), block, sums[rows])
            if keep is not None:
                block = np.multiply(block, keep[rows], out=empty(block.shape, block.dtype))
            mix(block, rows, out[rows])
    inverse = np.divide(1, sums, out=sums)
    out *= row_factors(inverse, scale)
    return out, Powers(powers, inverse, keep, scale)


def _write_powers(write_scores: Callable[[], None], powers: Array, sums: Array) -> None:
    """Turn scores into E (b, H, T, S), in place, and write Σ_S E into sums (b, H, T, 1); 0 and 1 if nothing is visible.

    write_scores writes the scores, -inf where hidden, into powers. It is called again if sums are not moderate.
    """
    write_scores()
    np.vecdot(np.exp(powers, out=powers), filled(powers.shape[3], 1.0, powers.dtype), out=sums[..., 0])
    is_moderate = (sums > MODERATE[0]) & (sums < MODERATE[1])
    if not is_moderate.all():  # moderate rows come out as before, to the bit: a row depends only on itself
        write_scores()
        top = powers.max(axis=3, keepdims=True, initial=-np.inf)
        top[~np.isfinite(top) | is_moderate] = 0  # a row of nothing: −∞ − −∞ is NaN
        powers -= top
        np.vecdot(np.exp(powers, out=powers), filled(powers.shape[3], 1.0, powers.dtype), out=sums[..., 0])
        sums[sums == 0] = 1


def attention_backward(dout: Array, cache: AttentionCache) -> tuple[Array, Array, Array]:
    """As the plain kernel: gradients (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D))."""
    return _backward(dout, cache, None)


def biased_attention_backward(dout: Array, cache: AttentionCache) -> tuple[Array, ...]:
    """As the plain kernel: gradients (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D), dbias (H, T, S))."""
    dbias = np.zeros(cache.kept.powers.shape[1:], dtype=cache.q.dtype)
    return *_backward(dout, cache, dbias), dbias


def _backward(dout: Array, cache: AttentionCache, dbias: Array | None) -> tuple[Array, Array, Array]:
    """(dq, dk, dv); the bias's gradient is added to dbias."""
    q, k, v, (powers, inverse, keep, scale) = cache
    expect_gradients(dout, q.shape)
    factor = row_factors(inverse, scale)
    dq, dk, dv = empty_gradients(q, k, v)
    for rows in blocks_of(powers):
        E = powers[rows]
        scratch = empty(E.shape, E.dtype)
        g = np.multiply(dout[rows], factor[rows], out=empty_heads(q[rows]))
        dropped = E if keep is None else np.multiply(E, keep[rows], out=scratch)
        np.matmul(dropped.swapaxes(2, 3), g, out=dv[rows])
        dscores = np.matmul(g, v[rows].swapaxes(2, 3), out=scratch)
        to_scores(dscores, cache.kept, rows)
        if dbias is not None:
            dbias += dscores.sum(axis=0)
        dscores *= 1 / math.sqrt(q.shape[3])
        np.matmul(dscores, k[rows], out=dq[rows])
        np.matmul(dscores.swapaxes(2, 3), q[rows], out=dk[rows])
    return dq, dk, dv


def to_scores(dweights: Array, cache: Powers, rows: slice) -> None:
    """Turn the gradient of a block's dropped weights (b, H, T, S), over i, into that of its scores, in place."""
    powers, inverse, keep, _ = cache
    if keep is not None:
        dweights *= keep[rows]
    shared = np.vecdot(dweights, powers[rows])[..., None]  # (b, H, T, 1)
    shared *= inverse[rows]
    dweights -= shared
    dweights *= powers[rows]


def score_caps(mask: AttentionMask, queries: int, keys: int, like: Array) -> HostArray | None:
    """+inf where a pair may meet, else -inf, in like's dtype, broadcastable to (B, H, T, S); None if all may.

    Raises what ``AttentionMask.visible`` raises.
    """
    pattern: HostArray | None = None  # (T, S)
    if mask.causal or mask.window is not None or mask.stride is not None:
        pattern = _pattern(mask.causal, mask.query_offset, mask.window, mask.stride, queries, keys, like.dtype)
    if mask.key_visible is None:
        return pattern
    by_key: Any = AttentionMask(mask.key_visible).visible(queries, keys, like)  # (B, 1, 1, S)
    if by_key.all():
        return pattern
    caps = as_caps(by_key, like.dtype)
    return caps if pattern is None else np.minimum(caps, pattern)


@lru_cache(maxsize=8)
def _pattern(
    causal: bool, query_offset: int, window: int | None, stride: int | None, queries: int, keys: int, dtype: Any
) -> HostArray | None:
    """The part of a mask that depends on positions alone, (T, S), read-only; None if all pairs may meet."""
    visible = AttentionMask(None, causal, query_offset, window, stride).visible(queries, keys, np.empty(0))
    assert visible is not None
    if visible.all():
        return None
    return read_only(as_caps(visible, dtype))


def as_caps(visible: Array, dtype: Any) -> Array:
    """+inf where visible, else -inf."""
    return np.where(visible, dtype.type(np.inf), dtype.type(-np.inf))
