"""y = log(1 + e^x)."""

import numpy as np


def inputs(rng):
    return (3 * rng.normal(size=(4, 21)),)


def forward(x):
    large = np.where(x.real > 0, x, 0)
    y = large + np.log(1 + np.exp(-np.where(x.real > 0, x, -x)))
    return y, x


def backward(dy, x):
    half = np.tanh(x / 2)
    return dy * (1 + half) / 2
