"""Multi-head attention, from x to a memory."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.attention import attention_backward, attention_forward
from npformer.lab.grader.parts.heads import merge_heads, split_heads
from npformer.lab.grader.parts.linear import linear_backward, linear_forward
from npformer.typing import Array


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
