"""Writes into buffers."""

import numpy as np


def forward(a, b, out):
    s = (1 + np.tanh(np.float32(0.851) * a)) / 2
    np.multiply(a * s, b, out=out[0])
    return a, b, s


def backward(dy, cache, out):
    a, b, s = cache
    da, db = out
    np.multiply(dy, a * s, out=db)
    np.multiply(dy * b, s * (1 + np.float32(1.702) * a * (1 - s)), out=da)
