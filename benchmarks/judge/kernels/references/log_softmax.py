"""The logarithm of the softmax of rows."""

import numpy as np

REGIMES = {"x": "scores"}


def inputs(rng):
    return (2 * rng.normal(size=(4, 21)),)


def forward(x):
    z = x - x.real.max(-1, keepdims=True)
    y = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return y, y


def backward(dy, y):
    return dy - np.exp(y) * dy.sum(-1, keepdims=True)
