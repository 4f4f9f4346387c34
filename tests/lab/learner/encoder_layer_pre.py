"""A learner's answer: Encoder layer, pre-LN."""

# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts
from parts import (
    add_norm_backward,
    add_norm_forward,
    feed_forward_backward,
    feed_forward_forward,
    layer_norm_backward,
    layer_norm_forward,
    multi_head_attention_backward,
    multi_head_attention_forward,
    residual_backward,
    residual_forward,
)


def encoder_layer_pre_forward(x, params, num_heads, visible=None):
    """x (B, S, C). Returns y (B, S, C) and a cache. params and visible as in encoder_layer_post."""
    norm1, norm2, ff = params["norm1"], params["norm2"], params["feed_forward"]
    normed, norm1_cache = layer_norm_forward(x, norm1["gamma"], norm1["beta"])  # 1. (B, S, C)
    f, attention_cache = multi_head_attention_forward(normed, normed, params["attention"], num_heads, visible)  # 2.
    (total, normed), norm2_cache = add_norm_forward(x, f, norm2["gamma"], norm2["beta"])  # 3. (B, S, C) each
    f, ff_cache = feed_forward_forward(normed, ff["w1"], ff["b1"], ff["w2"], ff["b2"])  # 4.
    y, residual_cache = residual_forward(total, f)  # 5. (B, S, C)
    return y, (norm1_cache, attention_cache, norm2_cache, ff_cache, residual_cache)


def encoder_layer_pre_backward(dy, cache):
    """dy (B, S, C). Returns (dx (B, S, C), dparams), dparams nested like params."""
    norm1_cache, attention_cache, norm2_cache, ff_cache, residual_cache = cache
    g = {"norm1": {}, "norm2": {}}
    stream, df = residual_backward(dy, residual_cache)
    dnormed, *weights = feed_forward_backward(df, ff_cache)
    g["feed_forward"] = dict(zip(("w1", "b1", "w2", "b2"), weights, strict=True))
    stream, df, g["norm2"]["gamma"], g["norm2"]["beta"] = add_norm_backward((stream, dnormed), norm2_cache)
    as_query, as_memory, g["attention"] = multi_head_attention_backward(df, attention_cache)
    branch, g["norm1"]["gamma"], g["norm1"]["beta"] = layer_norm_backward(as_query + as_memory, norm1_cache)
    return stream + branch, g
