"""A learner's answer: Encoder layer, post-LN."""

# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts
from parts import (
    feed_forward_backward,
    feed_forward_forward,
    multi_head_attention_backward,
    multi_head_attention_forward,
    post_norm_backward,
    post_norm_forward,
)


def encoder_layer_post_forward(x, params, num_heads, visible=None):
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


def encoder_layer_post_backward(dy, cache):
    """dy (B, S, C). Returns (dx (B, S, C), dparams), dparams nested like params."""
    attention_cache, norm1_cache, ff_cache, norm2_cache = cache
    g = {"norm1": {}, "norm2": {}, "feed_forward": {}}
    dx1, df, g["norm2"]["gamma"], g["norm2"]["beta"] = post_norm_backward(dy, norm2_cache)
    dff, *weights = feed_forward_backward(df, ff_cache)
    g["feed_forward"] = dict(zip(("w1", "b1", "w2", "b2"), weights, strict=True))
    dx, df, g["norm1"]["gamma"], g["norm1"]["beta"] = post_norm_backward(dx1 + dff, norm1_cache)
    as_query, as_memory, g["attention"] = multi_head_attention_backward(df, attention_cache)
    return dx + as_query + as_memory, g
