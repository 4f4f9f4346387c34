"""An encoder layer, post-LN."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.feed_forward import feed_forward_backward, feed_forward_forward
from npformer.lab.grader.parts.multi_head_attention import (
    multi_head_attention_backward,
    multi_head_attention_forward,
)
from npformer.lab.grader.parts.post_norm import post_norm_backward, post_norm_forward
from npformer.typing import Array


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
