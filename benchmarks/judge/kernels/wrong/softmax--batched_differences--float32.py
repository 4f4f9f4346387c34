"""Differences of a copy of the forward, all entries at once in one large array."""

import numpy as np


def inner(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def forward(x):
    return inner(x), x


def backward(dy, x):
    steps = 1e-6 * np.eye(x.size).reshape(x.size, *x.shape)
    slopes = (inner(x + steps) - inner(x - steps)) / 2e-6
    return (slopes * dy).sum((1, 2)).reshape(x.shape).astype(x.dtype)
