"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x, w):
    y = np.zeros_like(x * w[:1])
    for k in range(min(len(w), len(x))):
        y[k:] += w[k] * x[: len(x) - k]
    return bfloat16(y), (x, w)


def backward(dy, cache):
    x, w = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for k in range(min(len(w), len(x))):
        dx[: len(x) - k] += w[k] * dy[k:]
        dw[k] = (dy[k:] * x[: len(x) - k]).sum(0)
    return bfloat16(dx), bfloat16(dw)
