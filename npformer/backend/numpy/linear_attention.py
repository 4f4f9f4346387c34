"""Linear attention a few sequences at a time: features are computed once, chunks are processed one after the other.

    φ(x) = max(x, 0) + exp(min(x, 0))        φ'(x) = min(φ(x), 1)        in the symbols of the plain kernel

so only φ is kept, and the sign of x is not needed again; at hidden keys φ is 0, and so
is its slope. The plain kernel keeps a state for each chunk and copies its arrays into chunks. Here
one state is carried from chunk to chunk, and chunks are views. Backward computes three gradients from two
tables of products: (v'_j·dn_t) is needed for φ(q_t) and, transposed, for φ(k_j).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from npformer.backend.numpy.blocks import blocks_of, row_blocks
from npformer.backend.numpy.heads import empty_heads
from npformer.backend.workspace import empty, read_only
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask
from npformer.functional.linear_attention import CHUNK, expect_linear_attention
from npformer.typing import Array, HostArray


class LinearAttentionCache(NamedTuple):
    fq: Array  # (B, H, T, D)  φ(q)
    fk: Array  # (B, H, S, D)  φ(k), 0 where hidden
    v1: Array  # (B, H, S, D+1)  v'
    out: Array  # (B, H, T, D)
    inverse: Array  # (B, H, T, 1)  1/out'_D, 0 where nothing was seen
    causal: bool


def linear_attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask = ALL_VISIBLE
) -> tuple[Array, LinearAttentionCache]:
    """As the plain kernel: q (B, H, T, D) attends to k and v (B, H, S, D). Returns out (B, H, T, D)."""
    expect_linear_attention(q, k, v, mask)
    fq, fk, v1 = empty(q.shape, q.dtype), empty(k.shape, k.dtype), empty((*v.shape[:3], v.shape[3] + 1), v.dtype)
    out, inverse = empty_heads(q), empty((*q.shape[:3], 1), q.dtype)
    v1[..., :-1], v1[..., -1] = v, 1
    for rows in blocks_of(q):
        _features(q[rows], fq[rows])
        _features(k[rows], fk[rows])
        if mask.key_visible is not None:
            fk[rows] *= np.asarray(mask.key_visible)[rows, None, :, None]
        out1: Any = empty((*fq[rows].shape[:3], v1.shape[3]), q.dtype)
        if mask.causal:
            _causal(fq[rows], fk[rows], v1[rows], out1)
        else:
            np.matmul(fq[rows], fk[rows].swapaxes(2, 3) @ v1[rows], out=out1)
        total, share = out1[..., -1:], inverse[rows]
        share[...] = 0
        np.divide(1, total, out=share, where=total > 0)
        np.multiply(out1[..., :-1], share, out=out[rows])
    return out, LinearAttentionCache(fq, fk, v1, out, inverse, mask.causal)


def linear_attention_backward(dout: Array, cache: LinearAttentionCache) -> tuple[Array, Array, Array]:
    """As the plain kernel: gradients (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D))."""
    fq, fk, v1, out, inverse, causal = cache
    dq, dk, dv = empty_heads(fq), empty_heads(fk), empty_heads(fk)
    for rows in blocks_of(fq):
        dout1 = empty((*fq[rows].shape[:3], v1.shape[3]), fq.dtype)
        np.multiply(dout[rows], inverse[rows], out=dout1[..., :-1])
        np.negative(np.vecdot(dout1[..., :-1], out[rows]), out=dout1[..., -1])
        arguments = (fq[rows], fk[rows], v1[rows], dout1)
        wanted = (dq[rows], dk[rows], dv[rows])
        (_slopes_causal if causal else _slopes_of_all)(*arguments, *wanted)
        for slope, features in ((dq[rows], fq[rows]), (dk[rows], fk[rows])):
            slope *= np.minimum(features, 1)
    return dq, dk, dv


def _features(x: Array, y: Array) -> None:
    """Write φ(x) into y."""
    np.exp(np.minimum(x, 0, out=y), out=y)
    y += np.maximum(x, 0)


def _slopes_of_all(fq: Array, fk: Array, v1: Array, dout1: Array, dfq: Array, dfk: Array, dv: Array) -> None:
    """Write the gradients of φ(q), φ(k) and v for the case that every query sees all keys."""
    received = fq.swapaxes(2, 3) @ dout1  # G (b, H, D, D+1)
    np.matmul(dout1, (fk.swapaxes(2, 3) @ v1).swapaxes(2, 3), out=dfq)
    np.matmul(v1, received.swapaxes(2, 3), out=dfk)
    np.matmul(fk, received[..., :-1], out=dv)


def _causal(fq: Array, fk: Array, v1: Array, out1: Array) -> None:
    """Write n_t = Σ_{j ≤ t} (φ(q_t)·φ(k_j)) v'_j."""
    state = np.zeros((*fq.shape[:2], fq.shape[3], v1.shape[3]), dtype=fq.dtype)  # A before the chunk
    for part, past in _chunks(fq):
        q, k, v = fq[:, :, part], fk[:, :, part], v1[:, :, part]
        scores = q @ k.swapaxes(2, 3)
        scores *= past
        np.matmul(scores, v, out=out1[:, :, part])
        out1[:, :, part] += q @ state
        state += k.swapaxes(2, 3) @ v


def _slopes_causal(fq: Array, fk: Array, v1: Array, dout1: Array, dfq: Array, dfk: Array, dv: Array) -> None:
    """Write the gradients of φ(q), φ(k) and v for the causal case: chunks forward, then backward."""
    state = np.zeros((*fq.shape[:2], fq.shape[3], v1.shape[3]), dtype=fq.dtype)
    kept = []
    for part, past in _chunks(fq):
        d, v = dout1[:, :, part], v1[:, :, part]
        kept.append((part, past, d @ v.swapaxes(2, 3)))  # dout'_t·v'_j
        kept[-1][2][...] *= past
        np.matmul(kept[-1][2], fk[:, :, part], out=dfq[:, :, part])
        dfq[:, :, part] += d @ state.swapaxes(2, 3)
        state += fk[:, :, part].swapaxes(2, 3) @ v
    received = np.zeros_like(state)  # G behind the chunk
    for part, past, met in reversed(kept):
        q, k, d = fq[:, :, part], fk[:, :, part], dout1[:, :, part]
        np.matmul(met.swapaxes(2, 3), q, out=dfk[:, :, part])
        dfk[:, :, part] += v1[:, :, part] @ received.swapaxes(2, 3)
        scores = q @ k.swapaxes(2, 3)
        scores *= past
        np.matmul(scores.swapaxes(2, 3), d[..., :-1], out=dv[:, :, part])
        dv[:, :, part] += k @ received[..., :-1]
        received += q.swapaxes(2, 3) @ d


def _chunks(x: Array) -> list[tuple[slice, HostArray]]:
    """For each chunk of x (b, H, T, D): the slice of its tokens, and its causal mask of 1 and 0."""
    parts = row_blocks(x.shape[2], 1, CHUNK)
    return [(part, _past(part.stop - part.start, x.dtype)) for part in parts]


@lru_cache(maxsize=8)
def _past(size: int, dtype: Any) -> HostArray:
    return read_only(np.tri(size, dtype=dtype))
