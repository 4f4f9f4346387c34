"""Sums in float64, results in float32."""

import numpy as np


def forward(x):
    length = np.sqrt(np.square(x, dtype=np.float64).sum(-1, keepdims=True) + 1e-12)
    return (x / length).astype(np.float32), (x, length)


def backward(dy, cache):
    x, length = cache
    dot = (dy.astype(np.float64) * x).sum(-1, keepdims=True)
    return ((dy - x * dot / length**2) / length).astype(np.float32)
