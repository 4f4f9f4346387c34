"""y = log(e^a + e^b)."""

import numpy as np

REGIMES = {"a": "scores", "b": "scores"}


def inputs(rng):
    return tuple(2 * rng.normal(size=(2, 4, 17)))


def forward(a, b):
    top = np.where(a.real > b.real, a, b)
    return top + np.log(np.exp(a - top) + np.exp(b - top)), (a, b)


def backward(dy, cache):
    a, b = cache
    top = np.maximum(a, b)
    e, f = np.exp(a - top), np.exp(b - top)
    return dy * e / (e + f), dy * f / (e + f)
