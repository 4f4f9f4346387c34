"""The pairs that are no operation of npformer, where layers do what they do: attention with its maps, whole layers."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.operations import (
    add_norm_backward,
    add_norm_forward,
    attention_backward,
    attention_forward,
    feed_forward_backward,
    feed_forward_forward,
    layer_norm_backward,
    layer_norm_forward,
    linear_backward,
    linear_forward,
    merge_heads,
    post_norm_backward,
    post_norm_forward,
    residual_backward,
    residual_forward,
    split_heads,
)
from npformer.typing import Array


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
