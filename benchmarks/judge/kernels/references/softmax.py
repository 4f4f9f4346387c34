"""Softmax of rows."""

import numpy as np

REGIMES = {"x": "scores"}


def inputs(rng):
    return (2 * rng.normal(size=(5, 37)),)


def forward(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return y, y


def backward(dy, y):
    return y * (dy - (dy * y).sum(-1, keepdims=True))
