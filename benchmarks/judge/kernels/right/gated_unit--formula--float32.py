"""As its formula reads."""

import numpy as np

SLOPE = 1.702


def forward(a, b):
    s = (1 + np.tanh(SLOPE / 2 * a)) / 2
    return a * s * b, (a, b, s)


def backward(dy, cache):
    a, b, s = cache
    inner = s + SLOPE * a * s * (1 - s)
    return dy * b * inner, dy * a * s
