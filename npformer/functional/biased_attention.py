"""Attention with a bias on its scores, which depends on the pair of positions and not on the tokens there.

    scores  = Q Kᵀ/√D + bias       (B, H, T, S), bias (H, T, S) shared by all sequences
    out     = Drop(softmax(scores)) V

Backward as in ``attention.py``; the bias was added to the scores of every sequence, so

    dbias = Σ_B dscores

Each row of dbias sums to 0, as those of dscores do.

Source: Shaw, Uszkoreit & Vaswani 2018, arXiv:1803.02155; as a bias, Raffel et al. 2020, arXiv:1910.10683.
"""

from __future__ import annotations

import math

from npformer.functional.arrays import expect_shape, namespace
from npformer.functional.attention import AttentionCache, expect_heads
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask
from npformer.functional.dropout import dropout_backward, dropout_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.functional.softmax import SoftmaxCache, softmax_backward, softmax_forward
from npformer.typing import Array


def biased_attention_forward(
    q: Array,
    k: Array,
    v: Array,
    bias: Array,
    mask: AttentionMask = ALL_VISIBLE,
    draw: Draw | None = None,
    bits: Bits = philox_bits,
) -> tuple[Array, AttentionCache]:
    """Attend from q (B, H, T, D) to k and v (B, H, S, D) with bias (H, T, S). Returns out (B, H, T, D).

    mask, draw and errors as in attention_forward.
    """
    weights, softmax = _weights(q, k, bias, mask)  # 1. (B, H, T, S)
    expect_heads(q, k, v)
    dropped, dropout = dropout_forward(weights, draw, bits)  # 2.
    out = namespace(q).matmul(dropped, v)  # 3. (B, H, T, D)
    return out, AttentionCache(q, k, v, softmax, dropout)


def biased_attention_backward(dout: Array, cache: AttentionCache) -> tuple[Array, Array, Array, Array]:
    """Gradients (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D), dbias (H, T, S)) of biased_attention_forward."""
    q, k, v, softmax, dropout = cache
    xp = namespace(dout)
    scale = 1 / math.sqrt(q.shape[-1])
    (dropped,) = dropout_backward(softmax.y, dropout)  # keep·s again, as the forward applied it
    dv = xp.matmul(xp.matrix_transpose(dropped), dout)  # back through 3
    (dweights,) = dropout_backward(xp.matmul(dout, xp.matrix_transpose(v)), dropout)  # back through 3, 2
    (dscores,) = softmax_backward(dweights, softmax)  # back through 1
    dq = xp.matmul(dscores, k) * scale
    dk = xp.matmul(xp.matrix_transpose(dscores), q) * scale
    return dq, dk, dv, xp.sum(dscores, axis=0)


def biased_attention_weights(q: Array, k: Array, bias: Array, mask: AttentionMask = ALL_VISIBLE) -> Array:
    """The weights (B, H, T, S), before dropout, with which q (B, H, T, D) looks at k (B, H, S, D)."""
    return _weights(q, k, bias, mask)[0]


def _weights(q: Array, k: Array, bias: Array, mask: AttentionMask) -> tuple[Array, SoftmaxCache]:
    expect_heads(q, k, k)
    expect_shape("bias", bias, "(H, T, S)", q.shape[1], q.shape[2], k.shape[2])
    xp = namespace(q)
    scores = xp.matmul(q, xp.matrix_transpose(k)) * (1 / math.sqrt(q.shape[-1])) + bias
    return softmax_forward(scores, mask.visible(q.shape[-2], k.shape[-2], q))


BIASED_ATTENTION = Operation(biased_attention_forward, biased_attention_backward)
