"""Local and strided attention on views: the keys of neighbouring blocks are overlapping views of one array.

The plain kernel copies each key two or three times, once for every block that may look at it. Here each key is
stored once, with zeros before and after all keys, and a block's keys are a view; so is every size-th position. The
cache, exp, dropout and the sums are as in ``attention.py``. The scores of all patterns are adjacent
in (B, H, T, M), as in the plain kernel, so that dropout draws the same bits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from npformer.backend.numpy.attention import Powers, as_caps, attend, to_scores
from npformer.backend.numpy.blocks import blocks_of
from npformer.backend.numpy.heads import empty_gradients, row_factors
from npformer.backend.workspace import empty, read_only
from npformer.functional.attention_mask import AttentionMask
from npformer.functional.attention_pattern import Stride, Window
from npformer.functional.local_attention import expect_local_attention, patterns_of, visible_keys
from npformer.functional.philox import Draw
from npformer.typing import Array, HostArray


class LocalAttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)
    k: Array  # (B, H, T, D)
    v: Array  # (B, H, T, D)
    parts: tuple[_Part, ...]
    kept: Powers  # over M keys


class _Part(NamedTuple):
    """A pattern for a sequence, and its columns among the M."""

    pattern: Window | Stride
    columns: slice

    def keys(self, x: Array) -> Array:
        """The keys (b, H, G, M, D) of each block of x (b, H, T, D): views that overlap."""
        if isinstance(self.pattern, Stride):
            return self.pattern.keys(x)
        size, width = self.pattern.size, self.columns.stop - self.columns.start
        length, times = x.shape[2], -(-x.shape[2] // size)
        y = empty((*x.shape[:2], (times - 1) * size + width, x.shape[3]), x.dtype)  # x between zeros
        y[:, :, :size], y[:, :, size : size + length], y[:, :, size + length :] = 0, x, 0
        b, h, t, d = y.strides
        return as_strided(y, (*x.shape[:2], times, width, x.shape[3]), (b, h, t * size, t, d), writeable=False)

    def add_keys(self, dkeys: Array, dx: Array) -> None:
        """Add the gradients of the gathered keys, (b, H, G, M, D), to dx (b, H, T, D)."""
        length, size = dx.shape[2], self.pattern.size
        if isinstance(self.pattern, Stride):
            dx += self.pattern.rows(dkeys, length)
            return
        for block in range(dkeys.shape[3] // size):  # the previous block, the block itself, the next one
            some = dkeys[:, :, :, block * size : (block + 1) * size]
            some = some.reshape(*dx.shape[:2], dkeys.shape[2] * size, dx.shape[3])
            first = (block - 1) * size  # the position of the first key of the first block
            start, stop = max(0, first), min(length, first + some.shape[2])
            if stop > start:
                dx[:, :, start:stop] += some[:, :, start - first : stop - first]


def local_attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask, draw: Draw | None = None
) -> tuple[Array, LocalAttentionCache]:
    """As the plain kernel: attend from q to k and v, all (B, H, T, D), along mask's window or stride. Returns out."""
    expect_local_attention(q, k, v, mask)
    parts, caps = _parts(mask, q.shape[2]), _caps(mask, q)

    def write_scores(rows: slice, scores: Array) -> None:
        _products(q[rows], k[rows], parts, scores)
        scores *= 1 / math.sqrt(q.shape[3])
        np.fmin(scores, caps if len(caps) == 1 else caps[rows], out=scores)  # fmin: a hidden NaN is hidden too

    def mix(weights: Array, rows: slice, out: Array) -> None:
        out[...] = _of_keys(weights, v[rows], parts)

    out, powers = attend(q, caps.shape[-1], draw, write_scores, mix)
    return out, LocalAttentionCache(q, k, v, parts, powers)


def local_attention_backward(dout: Array, cache: LocalAttentionCache) -> tuple[Array, Array, Array]:
    """As the plain kernel: gradients (dq, dk, dv), all (B, H, T, D)."""
    q, k, v, parts, (powers, inverse, keep, scale) = cache
    factor = row_factors(inverse, scale)
    dq, dk, dv = empty_gradients(q, k, v)
    dk[...], dv[...] = 0, 0
    for rows in blocks_of(powers):
        E = powers[rows]
        g = np.multiply(dout[rows], factor[rows])
        dscores: Any = empty(E.shape, E.dtype)
        _products(g, v[rows], parts, dscores)
        to_scores(dscores, cache.kept, rows)
        dscores *= 1 / math.sqrt(q.shape[3])
        _to_keys(E if keep is None else E * keep[rows], g, parts, dv[rows])
        _to_keys(dscores, q[rows], parts, dk[rows])
        dq[rows] = _of_keys(dscores, k[rows], parts)
    return dq, dk, dv


def _products(rows: Array, keys: Array, parts: tuple[_Part, ...], y: Array) -> None:
    """Write the dot products of rows (b, H, T, D) with their gathered keys into y (b, H, T, M)."""
    for part in parts:
        met = np.matmul(part.pattern.blocks(rows), part.keys(keys).swapaxes(3, 4))
        y[..., part.columns] = part.pattern.rows(met, rows.shape[2])


def _of_keys(weights: Array, keys: Array, parts: tuple[_Part, ...]) -> Array:
    """Σ_j weights_tj key_j (b, H, T, D) over the gathered keys of each row; weights (b, H, T, M)."""
    sums = (
        part.pattern.rows(part.pattern.blocks(weights[..., part.columns]) @ part.keys(keys), keys.shape[2])
        for part in parts
    )
    return sum(sums, start=next(sums))


def _to_keys(weights: Array, rows: Array, parts: tuple[_Part, ...], dkeys: Array) -> None:
    """Add Σ_t weights_tj row_t, over the rows that key j was gathered for, to dkeys (b, H, T, D)."""
    for part in parts:
        blocks = part.pattern.blocks
        part.add_keys(blocks(weights[..., part.columns]).swapaxes(3, 4) @ blocks(rows), dkeys)


def _parts(mask: AttentionMask, length: int) -> tuple[_Part, ...]:
    parts, start = [], 0
    for pattern in patterns_of(mask):
        if isinstance(pattern, Window):
            width = (2 if pattern.causal else 3) * pattern.size
        else:
            width = -(-length // pattern.size)
        parts.append(_Part(pattern, slice(start, start + width)))
        start += width
    return tuple(parts)


def _caps(mask: AttentionMask, q: Array) -> Array:
    """+inf where a gathered key is visible to its query, else -inf, (B or 1, 1, T, M)."""
    if mask.key_visible is None or np.all(mask.key_visible):
        return _pattern_caps(mask.causal, mask.window, mask.stride, q.shape[2], q.dtype)
    return as_caps(visible_keys(mask, q), q.dtype)


@lru_cache(maxsize=8)
def _pattern_caps(causal: bool, window: int | None, stride: int | None, length: int, dtype: Any) -> HostArray:
    mask = AttentionMask(None, causal, 0, window, stride)
    return read_only(as_caps(visible_keys(mask, np.empty((1, 1, length, 1))), dtype))
