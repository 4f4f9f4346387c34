"""Products of bfloat16 numbers, summed in float32; probabilities and their gradient in float32."""

import numpy as np
from _bfloat16 import bfloat16


def forward(q, k, v, visible):
    s = np.where(visible, q @ k.T / np.float32(q.shape[-1] ** 0.5), np.float32(-1e9))
    e = np.exp(s - s.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return bfloat16(p @ v), (q, k, v, p)


def backward(dy, cache):
    q, k, v, p = cache
    dp = dy @ v.T
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.float32(q.shape[-1] ** 0.5)
    return bfloat16(ds @ k), bfloat16(ds.T @ q), bfloat16(p.T @ dy)
