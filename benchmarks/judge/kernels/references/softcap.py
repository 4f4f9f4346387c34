"""y = c tanh(x / c) with c = 5, as for attention scores."""

import numpy as np

CAP = 5


def inputs(rng):
    return (4 * rng.normal(size=(5, 11)),)


def forward(x):
    t = np.tanh(x / CAP)
    return CAP * t, t


def backward(dy, t):
    slope = 1 - t * t
    return dy * slope
