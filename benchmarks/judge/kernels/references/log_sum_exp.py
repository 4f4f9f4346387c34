"""y (N,) = log of the sum of e^x over a row."""

import numpy as np

REGIMES = {"x": "scores"}


def inputs(rng):
    return (2 * rng.normal(size=(5, 23)),)


def forward(x):
    top = x.real.max(1, keepdims=True)
    e = np.exp(x - top)
    total = e.sum(1, keepdims=True)
    return (top + np.log(total))[:, 0], e / total


def backward(dy, p):
    g = dy[:, None]
    return g * p
