"""The sum over a row of p is taken for 1, which it is."""

import numpy as np


def forward(x, p):
    z = x - x.max(1, keepdims=True)
    e = np.exp(z)
    total = e.sum(1, keepdims=True)
    return (p * (np.log(p) - z + np.log(total))).sum(1), (e / total, p)


def backward(dy, cache):
    q, p = cache
    return dy[:, None] * (q - p)
