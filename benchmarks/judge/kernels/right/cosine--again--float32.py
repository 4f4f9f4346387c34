"""Keeps the inputs alone and computes the rest again."""

import numpy as np

EPS = np.float32(1e-6)


def parts(a, b):
    r = 1 / np.sqrt((a * a).sum(1, keepdims=True) + EPS)
    s = 1 / np.sqrt((b * b).sum(1, keepdims=True) + EPS)
    return a * r, b * s, r, s


def forward(a, b):
    u, v, *_ = parts(a, b)
    return (u * v).sum(1), (a, b)


def backward(dy, cache):
    u, v, r, s = parts(*cache)
    g, c = dy[:, None], (u * v).sum(1, keepdims=True)
    return g * r * (v - c * u), g * s * (u - c * v)
