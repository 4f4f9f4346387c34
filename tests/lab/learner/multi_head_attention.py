"""A learner's answer: Multi-head attention."""

# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts
from parts import (
    attention_backward,
    attention_forward,
    linear_backward,
    linear_forward,
    merge_heads,
    split_heads,
)


def multi_head_attention_forward(x, memory, params, num_heads, visible=None):
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


def multi_head_attention_backward(dy, cache):
    """dy (B, T, C). Returns (dx (B, T, C), dmemory (B, S, C), dparams), dparams a dict with the keys of params."""
    q_cache, k_cache, v_cache, attention_cache, o_cache, num_heads = cache
    dparams = {}
    d, dparams["wo"], dparams["bo"] = linear_backward(dy, o_cache)
    dq, dk, dv = attention_backward(split_heads(d, num_heads), attention_cache)
    dx, dparams["wq"], dparams["bq"] = linear_backward(merge_heads(dq), q_cache)
    dmemory, dparams["wk"], dparams["bk"] = linear_backward(merge_heads(dk), k_cache)
    from_values, dparams["wv"], dparams["bv"] = linear_backward(merge_heads(dv), v_cache)
    return dx, dmemory + from_values, dparams
