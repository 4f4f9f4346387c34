"""Scaled dot-product attention: each query takes a mean of the values, weighted by how well the keys match.

    scores  = Q Kᵀ/√D              (B, H, T, S)
    weights = softmax(scores)      over the visible keys; a query that can see nothing gets 0
    out     = Drop(weights) V      (B, H, T, D)

Backward is the forward read bottom-up. The two products are linear maps in each of their
operands, so (as in ``linear.py``) each operand's gradient is the product's gradient times the other
operand, summed over all its uses. The factor 1/√D occurs once in the forward and once in each of dQ and dK:

    ddropped = dout Vᵀ             dV = Drop(weights)ᵀ dout
    dweights = ddropped·keep·s
    dscores  = weights·(dweights − Σ_S dweights·weights)
    dQ = dscores K/√D              dK = dscoresᵀ Q/√D

dV uses the weights *after* dropout, because the forward multiplied those by V. Softmax's backward uses the
weights *before* dropout. Hidden pairs have weight 0, so dscores is 0 there and nothing of K or V leaks back.

The mean of dweights that dscores subtracts is known without a row of weights. For every query, dropped or not,

    Σ_S dweights·weights = Σ_S (dout Vᵀ)·Drop(weights) = Σ_D dout·(Drop(weights) V) = Σ_D dout·out

so with out kept, the keys can be taken a block at a time: this is the step behind flash attention.

Each row of dscores sums to 0, as softmax does not see a shift of its row. So Σ_S dK = 0, and a bias that is added to
all keys alike has gradient 0: it adds one number to all scores of a query.

Why √D: for independent entries of mean 0 and variance 1 a sum of D products has variance D. Scaled, the scores have
variance 1 for every D, and softmax starts in a range where it has a gradient (``softmax.py``).

Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; the sum over D, Dao et al. 2022, arXiv:2205.14135, appendix B.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from npformer.errors import ShapeError
from npformer.functional.arrays import expect_shape, namespace
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask
from npformer.functional.dropout import DropoutCache, dropout_backward, dropout_forward
from npformer.functional.operation import Operation
from npformer.functional.philox import Bits, Draw, philox_bits
from npformer.functional.softmax import SoftmaxCache, softmax_backward, softmax_forward
from npformer.typing import Array


class AttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)  kept for dK
    k: Array  # (B, H, S, D)  kept for dQ
    v: Array  # (B, H, S, D)  kept for dweights
    softmax: SoftmaxCache  # the weights (B, H, T, S); dropped weights are recomputed, one product
    dropout: DropoutCache


def attention_forward(
    q: Array,
    k: Array,
    v: Array,
    mask: AttentionMask = ALL_VISIBLE,
    draw: Draw | None = None,
    bits: Bits = philox_bits,
) -> tuple[Array, AttentionCache]:
    """Attend from q (B, H, T, D) to k and v (B, H, S, D). Returns out (B, H, T, D).

    mask says which keys each query may look at, draw (or None) which weights are dropped.
    Raises ShapeError if the shapes do not meet, DTypeError if mask.key_visible is not boolean: expect_key_visible.
    """
    expect_heads(q, k, v)
    weights, softmax = _weights(q, k, mask)  # 1. (B, H, T, S)
    dropped, dropout = dropout_forward(weights, draw, bits)  # 2.
    out = namespace(q).matmul(dropped, v)  # 3. (B, H, T, D)
    return out, AttentionCache(q, k, v, softmax, dropout)


def attention_backward(dout: Array, cache: AttentionCache) -> tuple[Array, Array, Array]:
    """Gradients (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D)) of attention_forward."""
    q, k, v, softmax, dropout = cache
    xp = namespace(dout)
    scale = 1 / math.sqrt(q.shape[-1])
    (dropped,) = dropout_backward(softmax.y, dropout)  # keep·s again, as the forward applied it
    dv = xp.matmul(xp.matrix_transpose(dropped), dout)  # back through 3
    (dweights,) = dropout_backward(xp.matmul(dout, xp.matrix_transpose(v)), dropout)  # back through 3, 2
    (dscores,) = softmax_backward(dweights, softmax)  # back through 1
    dq = xp.matmul(dscores, k) * scale
    dk = xp.matmul(xp.matrix_transpose(dscores), q) * scale
    return dq, dk, dv


def attention_weights(q: Array, k: Array, mask: AttentionMask = ALL_VISIBLE) -> Array:
    """The weights (B, H, T, S), before dropout, with which q (B, H, T, D) looks at k (B, H, S, D)."""
    expect_heads(q, k, k)
    return _weights(q, k, mask)[0]


def _weights(q: Array, k: Array, mask: AttentionMask) -> tuple[Array, SoftmaxCache]:
    xp = namespace(q)
    scores = xp.matmul(q, xp.matrix_transpose(k)) * (1 / math.sqrt(q.shape[-1]))
    return softmax_forward(scores, mask.visible(q.shape[-2], k.shape[-2], q))


def expect_heads(q: Array, k: Array, v: Array) -> None:
    if q.ndim != 4:
        raise ShapeError(f"q: expected (B, H, T, D), got {tuple(q.shape)}")
    batch, heads, _, width = q.shape
    if k.ndim != 4 or k.shape != (batch, heads, k.shape[2], width):
        raise ShapeError(f"k: expected (B={batch}, H={heads}, S, D={width}), got {tuple(k.shape)}")
    expect_shape("v", v, "the shape of k", *k.shape)


ATTENTION = Operation(attention_forward, attention_backward)
