"""A learner's answer: Scaled dot-product attention."""

import math

import numpy as np

# the grader brings parts; to run this file yourself: npformer grade parts.py --template parts
from parts import (
    softmax_forward,
)


def attention_forward(q, k, v, visible=None):
    """q (B, H, T, D), k and v (B, H, S, D), visible boolean, broadcastable to (B, H, T, S), True = may be looked at.

    Returns out (B, H, T, D) and a cache.
    """
    scale = 1.0 / math.sqrt(q.shape[-1])
    scores = q @ np.matrix_transpose(k) * scale  # 1. (B, H, T, S)
    weights, softmax_cache = softmax_forward(scores, visible)  # 2. (B, H, T, S)
    out = weights @ v  # 3. (B, H, T, D)
    return out, (q, k, v, weights, softmax_cache)


def attention_backward(dout, cache):
    """dout (B, H, T, D). Returns (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D)), in this order."""
    q, k, v, weights = cache[:4]
    scale = q.shape[-1] ** -0.5
    dv = np.einsum("bhts,bhtd->bhsd", weights, dout)
    dweights = np.einsum("bhtd,bhsd->bhts", dout, v)
    dscores = scale * weights * (dweights - (dweights * weights).sum(-1, keepdims=True))
    return np.einsum("bhts,bhsd->bhtd", dscores, k), np.einsum("bhts,bhtd->bhsd", dscores, q), dv
