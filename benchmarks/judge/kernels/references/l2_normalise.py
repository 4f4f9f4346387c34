"""Rows of length 1."""

import numpy as np

REGIMES = {"x": ("offset", "times 3", "times 10", "negative")}


def inputs(rng):
    return (rng.normal(size=(5, 20)),)


def forward(x):
    r = 1 / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-12)
    y = x * r
    return y, (y, r)


def backward(dy, cache):
    y, r = cache
    return r * (dy - y * (dy * y).sum(-1, keepdims=True))
