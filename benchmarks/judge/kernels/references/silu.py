"""y = x / (1 + e^-x)."""

import numpy as np

REGIMES = {"x": "gates"}


def inputs(rng):
    return (2 * rng.normal(size=(5, 22)),)


def forward(x):
    e = np.exp(np.where(x.real > 0, -x, x))
    s = np.where(x.real > 0, 1, e) / (1 + e)
    return x * s, (x, s)


def backward(dy, cache):
    x, s = cache
    slope = s * (1 + x * (1 - s))
    return dy * slope
