"""Local and strided attention: each query looks at a few keys, and only the scores of those are computed.

    scores  = q_t·k_j/√D          for the keys j that the mask's window, or its stride, lets t see: (B, H, T, M)
    weights = softmax(scores)     over those of them that are visible
    out_t   = Σ_j Drop(weights)_tj v_j

The same numbers as ``attention.py`` with the same mask, except for which bits dropout draws. M is 3w for a window w (2w
if causal) and ⌈T/stride⌉ for a stride; with both, they add up, though a key that both bring is hidden once. So time and
memory grow as T·w, as T²/stride, or as their sum: a stride of about √T costs T^1.5. ``attention_pattern.py`` describes
how the keys are gathered for their queries.

Backward is the forward read bottom-up. A key that was gathered for several queries receives the sum of their
gradients:

    dv_j = Σ_t Drop(weights)_tj dout_t        dweights_tj = (dout_t·v_j)·keep·s
    dscores = weights·(dweights − Σ_j dweights·weights)
    dq_t = Σ_j dscores_tj k_j/√D              dk_j = Σ_t dscores_tj q_t/√D

Source: Child et al. 2019, arXiv:1904.10509; Beltagy et al. 2020, arXiv:2004.05150.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from npformer.errors import ConfigError
from npformer.functional.arrays import device_of, expect_shape, namespace
from npformer.functional.attention import expect_heads
from npformer.functional.attention_mask import AttentionMask, expect_key_visible
from npformer.functional.attention_pattern import Stride, Window
from npformer.functional.dropout import DropoutCache, dropout_backward, dropout_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.functional.softmax import SoftmaxCache, softmax_backward, softmax_forward
from npformer.typing import Array


class LocalAttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)
    k: Array  # (B, H, T, D)
    v: Array  # (B, H, T, D)
    patterns: tuple[Window | Stride, ...]
    softmax: SoftmaxCache  # the weights (B, H, T, M)
    dropout: DropoutCache


def local_attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask, draw: Draw | None = None, bits: Bits = philox_bits
) -> tuple[Array, LocalAttentionCache]:
    """Attend from q to k and v, all (B, H, T, D), along mask's window, or stride, or both. Returns out (B, H, T, D).

    draw (or None) says which weights are dropped. Raises ShapeError if the shapes do not meet, ConfigError
    for a mask with neither window nor stride, or with an offset.
    """
    expect_local_attention(q, k, v, mask)
    xp = namespace(q)
    length, scale = q.shape[2], 1 / math.sqrt(q.shape[3])
    patterns = patterns_of(mask)
    scores = [
        p.rows(xp.matmul(p.blocks(q), xp.matrix_transpose(p.keys(k))) * scale, length) for p in patterns
    ]  # 1. each (B, H, T, M_p)
    weights, softmax = softmax_forward(xp.concat(scores, axis=-1), visible_keys(mask, q))  # 2. (B, H, T, M)
    dropped, dropout = dropout_forward(weights, draw, bits)  # 3.
    out = xp.zeros_like(v)
    for p, part in zip(patterns, _split(dropped, patterns, length), strict=True):
        out = out + p.rows(xp.matmul(p.blocks(part), p.keys(v)), length)  # 4. (B, H, T, D)
    return out, LocalAttentionCache(q, k, v, patterns, softmax, dropout)


def local_attention_backward(dout: Array, cache: LocalAttentionCache) -> tuple[Array, Array, Array]:
    """Gradients (dq, dk, dv), all (B, H, T, D), of local_attention_forward."""
    q, k, v, patterns, softmax, dropout = cache
    xp, turn = namespace(dout), namespace(dout).matrix_transpose
    length, scale = q.shape[2], 1 / math.sqrt(q.shape[3])
    (dropped,) = dropout_backward(softmax.y, dropout)  # keep·s again, as the forward applied it
    dq, dk, dv = xp.zeros_like(q), xp.zeros_like(k), xp.zeros_like(v)
    for p, part in zip(patterns, _split(dropped, patterns, length), strict=True):  # back through 4
        dv = dv + p.keys_backward(xp.matmul(turn(p.blocks(part)), p.blocks(dout)), length)
    ddropped = [p.rows(xp.matmul(p.blocks(dout), turn(p.keys(v))), length) for p in patterns]
    (dweights,) = dropout_backward(xp.concat(ddropped, axis=-1), dropout)  # back through 3
    (dscores,) = softmax_backward(dweights, softmax)  # back through 2
    for p, part in zip(patterns, _split(dscores * scale, patterns, length), strict=True):  # back through 1
        blocks = p.blocks(part)
        dq = dq + p.rows(xp.matmul(blocks, p.keys(k)), length)
        dk = dk + p.keys_backward(xp.matmul(turn(blocks), p.blocks(q)), length)
    return dq, dk, dv


def patterns_of(mask: AttentionMask) -> tuple[Window | Stride, ...]:
    """How keys are brought to queries: along mask's window, then its stride."""
    window = () if mask.window is None else (Window(mask.window, mask.causal),)
    stride = () if mask.stride is None else (Stride(mask.stride),)
    return (*window, *stride)


def _split(x: Array, patterns: tuple[Window | Stride, ...], length: int) -> list[Array]:
    """x (B, H, T, M) as one (B, H, T, M_p) for each pattern."""
    parts, start = [], 0
    for p in patterns:
        stop = start + p.positions(length, x).shape[1]
        parts.append(x[..., start:stop])
        start = stop
    return parts


def visible_keys(mask: AttentionMask, like: Array) -> Array:
    """Which of the keys brought to each query of like (B, H, T, D) it may look at, boolean (B or 1, 1, T, M).

    None of them is seen twice.
    """
    xp, length = namespace(like), like.shape[2]
    query = xp.arange(length, dtype=xp.int64, device=device_of(like))[:, None]
    visible = []
    for p in patterns_of(mask):
        key = p.positions(length, like)  # (T, M_p)
        back = query - key
        near = (back < mask.window) & (back > -mask.window) if mask.window is not None else None
        fits = (key >= 0) & (key < length)
        if isinstance(p, Window):
            fits = fits & near
        elif near is not None:
            fits = fits & ~near  # the window has brought it already
        if mask.causal:
            fits = fits & (back >= 0)
        visible.append(_of_visible_keys(mask, xp.where(fits, key, xp.zeros_like(key)), fits))
    return xp.concat(visible, axis=-1)


def _of_visible_keys(mask: AttentionMask, key: Array, fits: Array) -> Array:
    """fits (T, M), where the key at each position may be looked at: (B or 1, 1, T, M)."""
    if mask.key_visible is None:
        return fits[None, None, :, :]
    xp = namespace(key)
    batch = mask.key_visible.shape[0]
    seen = xp.take(mask.key_visible, xp.reshape(key, (-1,)), axis=1)  # (B, T·M)
    return xp.reshape(seen, (batch, 1, *key.shape)) & fits


def expect_local_attention(q: Array, k: Array, v: Array, mask: AttentionMask) -> None:
    """Raise ShapeError, DTypeError or ConfigError for what local_attention_forward cannot take."""
    expect_heads(q, k, v)
    expect_shape("k", k, "the shape of q: local attention is of a sequence to itself", *q.shape)
    if mask.key_visible is not None:
        expect_key_visible(mask.key_visible, k.shape[0], k.shape[2])
    if mask.window is None and mask.stride is None:
        raise ConfigError("mask: expected a window, a stride, or both; without them every key is near: use attention")
    if mask.query_offset:
        raise ConfigError(
            f"mask: expected query_offset=0, got {mask.query_offset}; decoding asks a few kept keys instead"
        )


LOCAL_ATTENTION = Operation(local_attention_forward, local_attention_backward)
