"""A learner's answer: Decoder layer, post-LN."""

# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts
from parts import (
    feed_forward_backward,
    feed_forward_forward,
    multi_head_attention_backward,
    multi_head_attention_forward,
    post_norm_backward,
    post_norm_forward,
)


def decoder_layer_forward(x, memory, params, num_heads, visible=None, memory_visible=None):
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


def decoder_layer_backward(dy, cache):
    """dy (B, T, C). Returns (dx (B, T, C), dmemory (B, S, C), dparams), dparams nested like params."""
    self_cache, norm1_cache, cross_cache, norm2_cache, ff_cache, norm3_cache = cache
    g = {"norm1": {}, "norm2": {}, "norm3": {}}
    d, df, g["norm3"]["gamma"], g["norm3"]["beta"] = post_norm_backward(dy, norm3_cache)
    dff, *weights = feed_forward_backward(df, ff_cache)
    g["feed_forward"] = dict(zip(("w1", "b1", "w2", "b2"), weights, strict=True))
    d, df, g["norm2"]["gamma"], g["norm2"]["beta"] = post_norm_backward(d + dff, norm2_cache)
    as_query, dmemory, g["cross_attention"] = multi_head_attention_backward(df, cross_cache)
    d, df, g["norm1"]["gamma"], g["norm1"]["beta"] = post_norm_backward(d + as_query, norm1_cache)
    as_query, as_memory, g["self_attention"] = multi_head_attention_backward(df, self_cache)
    return d + as_query + as_memory, dmemory, g
