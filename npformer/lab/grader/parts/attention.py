"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.lab.grader.parts.softmax import softmax_backward, softmax_forward
from npformer.typing import Array


def attention_forward(q: Array, k: Array, v: Array, visible: Array | None = None) -> tuple[Array, Any]:
    """q (B, H, T, D), k and v (B, H, S, D), visible boolean, broadcastable to (B, H, T, S), True = may be looked at.

    Returns out (B, H, T, D) and a cache.
    """
    scale = 1.0 / math.sqrt(q.shape[-1])
    scores = q @ np.matrix_transpose(k) * scale  # 1. (B, H, T, S)
    weights, softmax_cache = softmax_forward(scores, visible)  # 2. (B, H, T, S)
    out = weights @ v  # 3. (B, H, T, D)
    return out, (q, k, v, weights, softmax_cache)


def attention_backward(dout: Array, cache: Any) -> tuple[Array, Array, Array]:
    """dout (B, H, T, D). Returns (dq (B, H, T, D), dk (B, H, S, D), dv (B, H, S, D)), in this order."""
    q, k, v, weights, softmax_cache = cache
    scale = 1.0 / math.sqrt(q.shape[-1])
    dv = np.matrix_transpose(weights) @ dout  # back through 3
    dweights = dout @ np.matrix_transpose(v)
    dscores = softmax_backward(dweights, softmax_cache)  # back through 2
    dq = dscores @ k * scale  # back through 1
    dk = np.matrix_transpose(dscores) @ q * scale
    return dq, dk, dv
