"""The pairs that call earlier ones: from the residual sum to a decoder layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.lab.grader.parts.operations import (
    dropout_backward,
    dropout_forward,
    layer_norm_backward,
    layer_norm_forward,
    linear_backward,
    linear_forward,
    merge_heads,
    relu_backward,
    relu_forward,
    softmax_backward,
    softmax_forward,
    split_heads,
)
from npformer.typing import Array


# Residual sum with dropout
def residual_forward(x: Array, f: Array, keep: Array | None = None, scale: float = 1.0) -> tuple[Array, Any]:
    """x (..., C), the sub-layer's output f (..., C), keep and scale of its dropout. Returns y (..., C) and a cache."""
    dropped, dropout_cache = dropout_forward(f, keep, scale)  # 1.
    return x + dropped, dropout_cache  # 2.


def residual_backward(dy: Array, cache: Any) -> tuple[Array, Array]:
    """dy (..., C). Returns (dx (..., C), df (..., C)), in this order."""
    dropout_cache = cache
    df = dropout_backward(dy, dropout_cache)
    return dy, df


# Post-LN: normalise the residual sum
def post_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, keep: Array | None = None, scale: float = 1.0
) -> tuple[Array, Any]:
    """x and f (..., C), gamma and beta (C,), keep and scale of the dropout on f. Returns y (..., C) and a cache."""
    total, residual_cache = residual_forward(x, f, keep, scale)  # 1. (..., C)
    y, norm_cache = layer_norm_forward(total, gamma, beta)  # 2. (..., C)
    return y, (residual_cache, norm_cache)


def post_norm_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array, Array]:
    """dy (..., C). Returns (dx (..., C), df (..., C), dgamma (C,), dbeta (C,)), in this order."""
    residual_cache, norm_cache = cache
    dtotal, dgamma, dbeta = layer_norm_backward(dy, norm_cache)  # back through 2
    dx, df = residual_backward(dtotal, residual_cache)  # back through 1
    return dx, df, dgamma, dbeta


# Pre-LN: finish one residual sum and normalise it for the next sub-layer
def add_norm_forward(
    x: Array, f: Array, gamma: Array, beta: Array, keep: Array | None = None, scale: float = 1.0
) -> tuple[tuple[Array, Array], Any]:
    """x and f (..., C), gamma and beta (C,), keep and scale of the dropout on f.

    Returns ((total, normed), cache): two outputs, both (..., C); the stream runs on as total.
    """
    total, residual_cache = residual_forward(x, f, keep, scale)  # 1. (..., C)
    normed, norm_cache = layer_norm_forward(total, gamma, beta)  # 2. (..., C)
    return (total, normed), (residual_cache, norm_cache)


def add_norm_backward(dy: tuple[Array, Array], cache: Any) -> tuple[Array, Array, Array, Array]:
    """dy = (dtotal, dnormed), both (..., C). Returns (dx (..., C), df (..., C), dgamma (C,), dbeta (C,))."""
    dtotal, dnormed = dy
    residual_cache, norm_cache = cache
    through_norm, dgamma, dbeta = layer_norm_backward(dnormed, norm_cache)  # back through 2
    dx, df = residual_backward(dtotal + through_norm, residual_cache)  # back through 1: total was used twice
    return dx, df, dgamma, dbeta


# Feed-forward
def feed_forward_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, keep: Array | None = None, scale: float = 1.0
) -> tuple[Array, Any]:
    """x (..., C), w1 (C, F), b1 (F,), w2 (F, C), b2 (C,), keep (..., F) and scale of the dropout inside.

    Returns y (..., C) and a cache.
    """
    h, up_cache = linear_forward(x, w1, b1)  # 1. (..., F)
    a, relu_cache = relu_forward(h)  # 2. (..., F)
    dropped, dropout_cache = dropout_forward(a, keep, scale)  # 3. (..., F)
    y, down_cache = linear_forward(dropped, w2, b2)  # 4. (..., C)
    return y, (up_cache, relu_cache, dropout_cache, down_cache)


def feed_forward_backward(dy: Array, cache: Any) -> tuple[Array, Array, Array, Array, Array]:
    """dy (..., C). Returns (dx (..., C), dw1 (C, F), db1 (F,), dw2 (F, C), db2 (C,)), in this order."""
    up_cache, relu_cache, dropout_cache, down_cache = cache
    ddropped, dw2, db2 = linear_backward(dy, down_cache)  # back through 4
    da = dropout_backward(ddropped, dropout_cache)  # back through 3
    dh = relu_backward(da, relu_cache)  # back through 2
    dx, dw1, db1 = linear_backward(dh, up_cache)  # back through 1
    return dx, dw1, db1, dw2, db2


# Scaled dot-product attention
def attention_forward(q: Array, k: Array, v: Array, visible: Array | None = None) -> tuple[Array, Any]:
    """q (B, H, T, D), k and v (B, H, S, D), visible boolean, broadcastable to (B, H, T, S), True = may be looked at.

    Returns out (B, H, T, D) and a cache.
    """
    scale = 1.0 / math.sqrt(q.shape[-1])
    scores = q @ np.matrix_transpose(k) * scale  # 1. (B, H, T, S)
    weights, softmax_cache = softmax_forward(scores, visible)  # 2. (B, H, T, S)
    out = weights @ v  # 3. (B, H, T, D)
    return out, (q, k, v, weights, softmax_cache)


def attention_backward(dout: Array, cache: Any) -> tuple[Array, Array, Array]:
    """dout (B, H, T, D). Returns (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D)), in this order."""
    q, k, v, weights, softmax_cache = cache
    scale = 1.0 / math.sqrt(q.shape[-1])
    dv = np.matrix_transpose(weights) @ dout  # back through 3
    dweights = dout @ np.matrix_transpose(v)
    dscores = softmax_backward(dweights, softmax_cache)  # back through 2
    dq = dscores @ k * scale  # back through 1
    dk = np.matrix_transpose(dscores) @ q * scale
    return dq, dk, dv


# Multi-head attention, from x to a memory
def multi_head_attention_forward(
    x: Array, memory: Array, params: dict[str, Array], num_heads: int, visible: Array | None = None
) -> tuple[Array, Any]:
    """x (B, T, C) looks at memory (B, S, C); self-attention is called with memory = x.

    params: {"wq", "wk", "wv", "wo"} (C, C) and {"bq", "bk", "bv", "bo"} (C,).
    visible: boolean, broadcastable to (B, H, T, S). Returns y (B, T, C) and a cache.
    """
    q, q_cache = linear_forward(x, params["wq"], params["bq"])  # 1. (B, T, C)
    k, k_cache = linear_forward(memory, params["wk"], params["bk"])  # 2. (B, S, C)
    v, v_cache = linear_forward(memory, params["wv"], params["bv"])  # 3. (B, S, C)
    q, k, v = split_heads(q, num_heads), split_heads(k, num_heads), split_heads(v, num_heads)  # 4. (B, H, ·, D)
    out, attention_cache = attention_forward(q, k, v, visible)  # 5. (B, H, T, D)
    y, o_cache = linear_forward(merge_heads(out), params["wo"], params["bo"])  # 6. (B, T, C)
    return y, (q_cache, k_cache, v_cache, attention_cache, o_cache, num_heads)


def multi_head_attention_backward(dy: Array, cache: Any) -> tuple[Array, Array, dict[str, Array]]:
    """dy (B, T, C). Returns (dx (B, T, C), dmemory (B, S, C), dparams), dparams a dict with the keys of params."""
    q_cache, k_cache, v_cache, attention_cache, o_cache, num_heads = cache
    dmerged, dwo, dbo = linear_backward(dy, o_cache)  # back through 6
    dq, dk, dv = attention_backward(split_heads(dmerged, num_heads), attention_cache)  # back through 5
    dq, dk, dv = merge_heads(dq), merge_heads(dk), merge_heads(dv)  # back through 4
    dmemory_v, dwv, dbv = linear_backward(dv, v_cache)  # back through 3
    dmemory_k, dwk, dbk = linear_backward(dk, k_cache)  # back through 2
    dx, dwq, dbq = linear_backward(dq, q_cache)  # back through 1
    dparams = {"wq": dwq, "bq": dbq, "wk": dwk, "bk": dbk, "wv": dwv, "bv": dbv, "wo": dwo, "bo": dbo}
    return dx, dmemory_k + dmemory_v, dparams


# An encoder layer, post-LN
def encoder_layer_post_forward(
    x: Array, params: dict[str, dict[str, Array]], num_heads: int, visible: Array | None = None
) -> tuple[Array, Any]:
    """x (B, S, C). Returns y (B, S, C) and a cache.

    params: "attention" (see multi_head_attention), "norm1" and "norm2" {"gamma", "beta"} (C,),
    "feed_forward" {"w1", "b1", "w2", "b2"}. visible: broadcastable to (B, H, S, S).
    """
    norm1, norm2, ff = params["norm1"], params["norm2"], params["feed_forward"]
    f, attention_cache = multi_head_attention_forward(x, x, params["attention"], num_heads, visible)  # 1.
    x1, norm1_cache = post_norm_forward(x, f, norm1["gamma"], norm1["beta"])  # 2. (B, S, C)
    f, ff_cache = feed_forward_forward(x1, ff["w1"], ff["b1"], ff["w2"], ff["b2"])  # 3.
    y, norm2_cache = post_norm_forward(x1, f, norm2["gamma"], norm2["beta"])  # 4. (B, S, C)
    return y, (attention_cache, norm1_cache, ff_cache, norm2_cache)


def encoder_layer_post_backward(dy: Array, cache: Any) -> tuple[Array, dict[str, dict[str, Array]]]:
    """dy (B, S, C). Returns (dx (B, S, C), dparams), dparams nested like params."""
    attention_cache, norm1_cache, ff_cache, norm2_cache = cache
    dx1, df, dgamma2, dbeta2 = post_norm_backward(dy, norm2_cache)  # back through 4
    dx1_ff, dw1, db1, dw2, db2 = feed_forward_backward(df, ff_cache)  # back through 3
    dx1 = dx1 + dx1_ff  # x1 was used twice, in 3 and in 4
    dx, df, dgamma1, dbeta1 = post_norm_backward(dx1, norm1_cache)  # back through 2
    dqueries, dmemory, dattention = multi_head_attention_backward(df, attention_cache)  # back through 1
    dx = dx + dqueries + dmemory  # x was used three times, in 2 and twice in 1
    dparams = {
        "attention": dattention,
        "norm1": {"gamma": dgamma1, "beta": dbeta1},
        "feed_forward": {"w1": dw1, "b1": db1, "w2": dw2, "b2": db2},
        "norm2": {"gamma": dgamma2, "beta": dbeta2},
    }
    return dx, dparams


# An encoder layer, pre-LN
def encoder_layer_pre_forward(
    x: Array, params: dict[str, dict[str, Array]], num_heads: int, visible: Array | None = None
) -> tuple[Array, Any]:
    """x (B, S, C). Returns y (B, S, C) and a cache. params and visible as in encoder_layer_post."""
    norm1, norm2, ff = params["norm1"], params["norm2"], params["feed_forward"]
    normed, norm1_cache = layer_norm_forward(x, norm1["gamma"], norm1["beta"])  # 1. (B, S, C)
    f, attention_cache = multi_head_attention_forward(normed, normed, params["attention"], num_heads, visible)  # 2.
    (total, normed), norm2_cache = add_norm_forward(x, f, norm2["gamma"], norm2["beta"])  # 3. (B, S, C) each
    f, ff_cache = feed_forward_forward(normed, ff["w1"], ff["b1"], ff["w2"], ff["b2"])  # 4.
    y, residual_cache = residual_forward(total, f)  # 5. (B, S, C)
    return y, (norm1_cache, attention_cache, norm2_cache, ff_cache, residual_cache)


def encoder_layer_pre_backward(dy: Array, cache: Any) -> tuple[Array, dict[str, dict[str, Array]]]:
    """dy (B, S, C). Returns (dx (B, S, C), dparams), dparams nested like params."""
    norm1_cache, attention_cache, norm2_cache, ff_cache, residual_cache = cache
    dtotal, df = residual_backward(dy, residual_cache)  # back through 5
    dnormed, dw1, db1, dw2, db2 = feed_forward_backward(df, ff_cache)  # back through 4
    dstream, df, dgamma2, dbeta2 = add_norm_backward((dtotal, dnormed), norm2_cache)  # back through 3
    dqueries, dmemory, dattention = multi_head_attention_backward(df, attention_cache)  # back through 2
    dnorm1, dgamma1, dbeta1 = layer_norm_backward(dqueries + dmemory, norm1_cache)  # back through 1
    dx = dstream + dnorm1  # x was used twice, in 1 and in 3
    dparams = {
        "norm1": {"gamma": dgamma1, "beta": dbeta1},
        "attention": dattention,
        "norm2": {"gamma": dgamma2, "beta": dbeta2},
        "feed_forward": {"w1": dw1, "b1": db1, "w2": dw2, "b2": db2},
    }
    return dx, dparams


# A decoder layer, post-LN
def decoder_layer_forward(
    x: Array,
    memory: Array,
    params: dict[str, dict[str, Array]],
    num_heads: int,
    visible: Array | None = None,
    memory_visible: Array | None = None,
) -> tuple[Array, Any]:
    """x (B, T, C), memory (B, S, C), the encoder's output. Returns y (B, T, C) and a cache.

    params: "self_attention" and "cross_attention" (see multi_head_attention), "norm1", "norm2" and
    "norm3" {"gamma", "beta"}, "feed_forward" {"w1", "b1", "w2", "b2"}. visible: broadcastable to
    (B, H, T, T), memory_visible to (B, H, T, S).
    """
    norm1, norm2, norm3, ff = params["norm1"], params["norm2"], params["norm3"], params["feed_forward"]
    f, self_cache = multi_head_attention_forward(x, x, params["self_attention"], num_heads, visible)  # 1.
    x1, norm1_cache = post_norm_forward(x, f, norm1["gamma"], norm1["beta"])  # 2. (B, T, C)
    f, cross_cache = multi_head_attention_forward(
        x1, memory, params["cross_attention"], num_heads, memory_visible
    )  # 3.
    x2, norm2_cache = post_norm_forward(x1, f, norm2["gamma"], norm2["beta"])  # 4. (B, T, C)
    f, ff_cache = feed_forward_forward(x2, ff["w1"], ff["b1"], ff["w2"], ff["b2"])  # 5.
    y, norm3_cache = post_norm_forward(x2, f, norm3["gamma"], norm3["beta"])  # 6. (B, T, C)
    return y, (self_cache, norm1_cache, cross_cache, norm2_cache, ff_cache, norm3_cache)


def decoder_layer_backward(dy: Array, cache: Any) -> tuple[Array, Array, dict[str, dict[str, Array]]]:
    """dy (B, T, C). Returns (dx (B, T, C), dmemory (B, S, C), dparams), dparams nested like params."""
    self_cache, norm1_cache, cross_cache, norm2_cache, ff_cache, norm3_cache = cache
    dx2, df, dgamma3, dbeta3 = post_norm_backward(dy, norm3_cache)  # back through 6
    dx2_ff, dw1, db1, dw2, db2 = feed_forward_backward(df, ff_cache)  # back through 5
    dx1, df, dgamma2, dbeta2 = post_norm_backward(dx2 + dx2_ff, norm2_cache)  # back through 4
    dx1_cross, dmemory, dcross = multi_head_attention_backward(df, cross_cache)  # back through 3
    dx, df, dgamma1, dbeta1 = post_norm_backward(dx1 + dx1_cross, norm1_cache)  # back through 2
    dqueries, dkeys, dself = multi_head_attention_backward(df, self_cache)  # back through 1
    dx = dx + dqueries + dkeys  # x was used three times, in 2 and twice in 1
    dparams = {
        "self_attention": dself,
        "norm1": {"gamma": dgamma1, "beta": dbeta1},
        "cross_attention": dcross,
        "norm2": {"gamma": dgamma2, "beta": dbeta2},
        "feed_forward": {"w1": dw1, "b1": db1, "w2": dw2, "b2": db2},
        "norm3": {"gamma": dgamma3, "beta": dbeta3},
    }
    return dx, dmemory, dparams
