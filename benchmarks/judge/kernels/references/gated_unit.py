"""y = a s(1.702 a) b with s(x) = 1 / (1 + e^-x)."""

import numpy as np

SLOPE = 1.702
REGIMES = {"a": "gates"}


def inputs(rng):
    return 2 * rng.normal(size=(4, 15)), rng.normal(size=(4, 15))


def forward(a, b):
    s = (1 + np.tanh(SLOPE / 2 * a)) / 2
    return a * s * b, (a, b, s)


def backward(dy, cache):
    a, b, s = cache
    inner = s + SLOPE * a * s * (1 - s)
    return dy * b * inner, dy * a * s
