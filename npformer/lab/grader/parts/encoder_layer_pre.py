"""An encoder layer, pre-LN."""

from __future__ import annotations

from typing import Any

from npformer.lab.grader.parts.add_norm import add_norm_backward, add_norm_forward
from npformer.lab.grader.parts.feed_forward import feed_forward_backward, feed_forward_forward
from npformer.lab.grader.parts.layer_norm import layer_norm_backward, layer_norm_forward
from npformer.lab.grader.parts.multi_head_attention import (
    multi_head_attention_backward,
    multi_head_attention_forward,
)
from npformer.lab.grader.parts.residual import residual_backward, residual_forward
from npformer.typing import Array


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
