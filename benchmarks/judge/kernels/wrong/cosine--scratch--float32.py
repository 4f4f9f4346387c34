"""The scratch memory of the forward is kept for all calls: a second forward overwrites what the first left."""

import numpy as np

SCRATCH = {}


def forward(a, b):
    u, v = SCRATCH.setdefault(a.shape, (np.empty_like(a), np.empty_like(b)))
    r = 1 / np.sqrt((a * a).sum(1, keepdims=True) + np.float32(1e-6))
    s = 1 / np.sqrt((b * b).sum(1, keepdims=True) + np.float32(1e-6))
    np.multiply(a, r, out=u)
    np.multiply(b, s, out=v)
    return (u * v).sum(1), (u, v, r, s)


def backward(dy, cache):
    u, v, r, s = cache
    g, c = dy[:, None], (u * v).sum(1, keepdims=True)
    return g * r * (v - c * u), g * s * (u - c * v)
