"""w = g v / |v| by rows; 1e-6 is added to the sum of squares."""

import numpy as np

REGIMES = {"v": "rows"}


def inputs(rng):
    return rng.normal(size=(5, 12)), 1 + 0.3 * rng.normal(size=5)


def forward(v, g):
    r = 1 / np.sqrt((v * v).sum(1, keepdims=True) + 1e-6)
    u = v * r
    return g[:, None] * u, (u, r, g)


def backward(dy, cache):
    u, r, g = cache
    along = (dy * u).sum(1, keepdims=True)
    return g[:, None] * r * (dy - along * u), along[:, 0]
