"""A learner's answer: Pre-LN, between two sub-layers."""

# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts
from parts import (
    layer_norm_backward,
    layer_norm_forward,
    residual_backward,
    residual_forward,
)


def add_norm_forward(x, f, gamma, beta, keep=None, scale=1.0):
    """x and f (..., C), gamma and beta (C,), keep and scale of the dropout on f.

    Returns ((total, normed), cache): two outputs, both (..., C); the stream runs on as total.
    """
    total, residual_cache = residual_forward(x, f, keep, scale)  # 1. (..., C)
    normed, norm_cache = layer_norm_forward(total, gamma, beta)  # 2. (..., C)
    return (total, normed), (residual_cache, norm_cache)


def add_norm_backward(dy, cache):
    """dy = (dtotal, dnormed), both (..., C). Returns (dx (..., C), df (..., C), dgamma (C,), dbeta (C,))."""
    residual_cache, norm_cache = cache
    stream, dnormed = dy
    branch, dgamma, dbeta = layer_norm_backward(dnormed, norm_cache)
    dx, df = residual_backward(branch + stream, residual_cache)
    return dx, df, dgamma, dbeta
