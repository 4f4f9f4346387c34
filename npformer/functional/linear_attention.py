"""Linear attention: with a feature map instead of exp, keys and values are summed once for all queries.

    φ(x) = elu(x) + 1 = x + 1 where x > 0, else exp x          always positive
    out_t = (Σ_j (φ(q_t)·φ(k_j)) v_j)/(Σ_j φ(q_t)·φ(k_j))

The products may be taken in another order: φ(q_t) is multiplied by Σ_j φ(k_j)ᵀ v_j, a (D, D) matrix whose size
does not depend on the number of keys. So the cost grows as T + S, not as T·S. With a column of ones appended to the
values, v' = [v 1], numerator and denominator are columns of one product (hidden keys: φ(k) = 0):

    A = φ(K)ᵀ V'       (D, D+1)             out' = φ(Q) A       out = out'_{:D}/out'_D

Causal: A_t sums only j ≤ t. In chunks of CHUNK tokens, with the state A before the chunk,

    out'_t = φ(q_t) A_before + Σ_{j ≤ t, in the chunk} (φ(q_t)·φ(k_j)) v'_j

so the work is still matrix products. From chunk to chunk one (D, D+1) matrix is handed on; within a chunk scores of
CHUNK × CHUNK are made.

Backward, read bottom-up. The denominator divides all D numbers of out, so its gradient is −(Σ_D dout·out)/out'_D:

               dout' = [dout, −Σ_D dout·out]/out'_D
    all keys   dφ(Q) = dout' Aᵀ            G   = φ(Q)ᵀ dout'                what the (D, D+1) sum received
    causal     dφ(q_t) = dout'_t A_tᵀ      G_j = Σ_{t ≥ j} φ(q_t)ᵀ dout'_t      a sum from the end
    both       dφ(k_j) = v'_j Gᵀ           dv'_j = φ(k_j) G

with rows q_t, k_j, v'_j, and dx = dφ(x)·φ'(x) with φ' = 1 where x > 0, else φ. A query that sees no key has
out'_D = 0: its output is 0, by definition, and so is its gradient.

Source: Katharopoulos et al. 2020, arXiv:2006.16236, section 3.
"""

from __future__ import annotations

from typing import NamedTuple

from npformer.errors import ConfigError
from npformer.functional.arrays import device_of, namespace, real_part
from npformer.functional.attention import expect_heads
from npformer.functional.attention_mask import ALL_VISIBLE, AttentionMask, expect_key_visible
from npformer.functional.attention_pattern import Window
from npformer.functional.operation import Operation
from npformer.typing import Array

CHUNK = 64


class LinearAttentionCache(NamedTuple):
    q: Array  # (B, H, T, D)  kept, like k, for the sign of its entries; φ is recomputed
    k: Array  # (B, H, S, D)
    v: Array  # (B, H, S, D)
    out: Array  # (B, H, T, D)
    inverse: Array  # (B, H, T, 1)  kept: 1/out'_D, 0 where nothing was seen
    mask: AttentionMask


def linear_attention_forward(
    q: Array, k: Array, v: Array, mask: AttentionMask = ALL_VISIBLE
) -> tuple[Array, LinearAttentionCache]:
    """Attend from q (B, H, T, D) to k and v (B, H, S, D) in time T + S. Returns out (B, H, T, D).

    There are no weights to be dropped. Raises ShapeError if the shapes do not meet, ConfigError for a mask
    with window or stride, or causal with an offset or T ≠ S.
    """
    expect_linear_attention(q, k, v, mask)
    xp = namespace(q)
    fq, fk, v1 = _features(q), _visible_features(k, mask), _with_ones(v)
    out1 = _causal(fq, fk, v1) if mask.causal else xp.matmul(fq, xp.matmul(xp.matrix_transpose(fk), v1))
    total = out1[..., -1:]  # (B, H, T, 1)
    seen = real_part(total) > 0
    inverse = xp.where(seen, 1 / xp.where(seen, total, xp.ones_like(total)), xp.zeros_like(total))
    out = out1[..., :-1] * inverse
    return out, LinearAttentionCache(q, k, v, out, inverse, mask)


def linear_attention_backward(dout: Array, cache: LinearAttentionCache) -> tuple[Array, Array, Array]:
    """Gradients (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D)) of linear_attention_forward."""
    q, k, v, out, inverse, mask = cache
    xp = namespace(dout)
    fq, fk, v1 = _features(q), _visible_features(k, mask), _with_ones(v)
    dout1 = xp.concat([dout * inverse, -xp.sum(dout * out, axis=-1, keepdims=True) * inverse], axis=-1)
    turn = xp.matrix_transpose
    if mask.causal:
        dfq = _causal(dout1, v1, fk)  # dout'_t Σ_{j ≤ t} v'_jᵀ φ(k_j)
        dfk = _causal(v1, dout1, fq, from_end=True)  # v'_j Σ_{t ≥ j} dout'_tᵀ φ(q_t)
        dv1 = _causal(fk, fq, dout1, from_end=True)  # φ(k_j) Σ_{t ≥ j} φ(q_t)ᵀ dout'_t
    else:
        received = xp.matmul(turn(fq), dout1)  # G (B, H, D, D+1)
        dfq = xp.matmul(dout1, turn(xp.matmul(turn(fk), v1)))
        dfk, dv1 = xp.matmul(v1, turn(received)), xp.matmul(fk, received)
    return dfq * _slope(q), _hide(dfk * _slope(k), mask), dv1[..., :-1]


def linear_attention_step(
    q: Array, k: Array, v: Array, state: Array, mask: AttentionMask = ALL_VISIBLE
) -> tuple[Array, Array]:
    """For decoding: q, k, v (B, H, n, D) of the newest tokens and A (B, H, D, D+1) of all before. Returns (out, A).

    mask.key_visible (B, S), S ≥ n, is of all keys so far; only its last n columns are looked at.
    """
    xp = namespace(q)
    visible = None if mask.key_visible is None else mask.key_visible[:, mask.key_visible.shape[1] - q.shape[2] :]
    fq, fk, v1 = _features(q), _visible_features(k, AttentionMask(visible)), _with_ones(v)
    out1 = _causal(fq, fk, v1) + xp.matmul(fq, state)
    total = out1[..., -1:]
    seen = total > 0
    out = xp.where(seen, out1[..., :-1] / xp.where(seen, total, xp.ones_like(total)), xp.zeros_like(out1[..., :-1]))
    return out, state + xp.matmul(xp.matrix_transpose(fk), v1)


def linear_attention_weights(q: Array, k: Array, mask: AttentionMask = ALL_VISIBLE) -> Array:
    """The weights (B, H, T, S) that linear attention never makes: φ(q)·φ(k) over their sum, for a reader."""
    xp = namespace(q)
    scores = xp.matmul(_features(q), xp.matrix_transpose(_features(k)))
    visible = mask.visible(q.shape[-2], k.shape[-2], q)
    if visible is not None:
        scores = xp.where(visible, scores, xp.zeros_like(scores))
    total = xp.sum(scores, axis=-1, keepdims=True)
    return scores / xp.where(total > 0, total, xp.ones_like(total))


def _causal(a: Array, b: Array, c: Array, from_end: bool = False) -> Array:
    """y_t = Σ_{j ≤ t} (a_t·b_j) c_j (j ≥ t if from_end), for rows of (B, H, T, ·), a chunk at a time."""
    xp = namespace(a)
    length = a.shape[2]
    size = max(1, min(CHUNK, length))
    chunks = Window(size, causal=True)
    a, b, c = (chunks.blocks(x) for x in (a, b, c))  # (B, H, n, size, ·), filled up with zeros, which add nothing
    states = xp.matmul(xp.matrix_transpose(b), c)  # (B, H, n, ·, ·), of each chunk alone
    index = xp.arange(size, device=device_of(a))
    near = index[:, None] <= index[None, :] if from_end else index[:, None] >= index[None, :]
    scores = xp.matmul(a, xp.matrix_transpose(b))  # (B, H, n, size, size)
    inside = xp.matmul(xp.where(near, scores, xp.zeros_like(scores)), c)
    y = inside + xp.matmul(a, _sum_of_others(states, from_end))
    return chunks.rows(y, length)


def _sum_of_others(states: Array, from_end: bool) -> Array:
    """For each chunk (axis 2) the sum of the states of the chunks before it, or after it."""
    xp = namespace(states)
    zeros = xp.zeros_like(states[:, :, :1, ...])
    if from_end:
        others = xp.cumulative_sum(xp.flip(states[:, :, 1:, ...], axis=2), axis=2)
        return xp.concat([xp.flip(others, axis=2), zeros], axis=2)
    return xp.concat([zeros, xp.cumulative_sum(states[:, :, :-1, ...], axis=2)], axis=2)


def _features(x: Array) -> Array:
    """φ(x). exp gets no argument above 0, so it cannot overflow."""
    xp = namespace(x)
    positive = real_part(x) > 0
    return xp.where(positive, x + 1, xp.exp(xp.where(positive, xp.zeros_like(x), x)))


def _slope(x: Array) -> Array:
    """φ'(x)."""
    xp = namespace(x)
    positive = real_part(x) > 0
    return xp.where(positive, xp.ones_like(x), xp.exp(xp.where(positive, xp.zeros_like(x), x)))


def _visible_features(k: Array, mask: AttentionMask) -> Array:
    return _hide(_features(k), mask)


def _hide(x: Array, mask: AttentionMask) -> Array:
    """x (B, H, S, D), 0 at hidden keys."""
    if mask.key_visible is None:
        return x
    xp = namespace(x)
    return xp.where(mask.key_visible[:, None, :, None], x, xp.zeros_like(x))


def _with_ones(v: Array) -> Array:
    """v' (B, H, S, D+1)."""
    xp = namespace(v)
    return xp.concat([v, xp.ones_like(v[..., :1])], axis=-1)


def expect_linear_attention(q: Array, k: Array, v: Array, mask: AttentionMask) -> None:
    """Raise ShapeError, DTypeError or ConfigError for what linear_attention_forward cannot take."""
    expect_heads(q, k, v)
    if mask.key_visible is not None:
        expect_key_visible(mask.key_visible, k.shape[0], k.shape[2])
    if mask.window is not None or mask.stride is not None:
        raise ConfigError(
            "mask: expected no window and no stride, since linear attention has no single pairs to hide; "
            "use local attention"
        )
    if mask.causal and (mask.query_offset or q.shape[2] != k.shape[2]):
        raise ConfigError(
            f"mask: expected causal linear attention to have T = S and no offset, got T={q.shape[2]}, S={k.shape[2]}, "
            f"query_offset={mask.query_offset}; decoding keeps sums instead"
        )


LINEAR_ATTENTION = Operation(linear_attention_forward, linear_attention_backward)
