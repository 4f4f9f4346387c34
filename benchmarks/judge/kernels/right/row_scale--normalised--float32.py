"""Rows of dy are divided by their largest entry, as for few digits, and multiplied by it at the end."""

import numpy as np


def forward(x, s):
    return x * s[:, None], (x, s)


def backward(dy, cache):
    x, s = cache
    top = np.abs(dy).max(1, keepdims=True)
    top = np.where(top > 0, top, np.float32(1))
    g = dy / top
    return g * s[:, None] * top, (g * x).sum(1) * top[:, 0]
