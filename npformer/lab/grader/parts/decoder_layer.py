"""A decoder layer, post-LN."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.feed_forward import feed_forward_backward, feed_forward_forward
from npformer.lab.grader.parts.multi_head_attention import (
    multi_head_attention_backward,
    multi_head_attention_forward,
)
from npformer.lab.grader.parts.post_norm import post_norm_backward, post_norm_forward
from npformer.typing import Array


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
