"""Probabilities minus the one-hot class."""

import numpy as np


def forward(x, classes):
    z = x - x.max(-1, keepdims=True)
    e = np.exp(z)
    s = e.sum(-1, keepdims=True)
    rows = np.arange(len(x))
    loss = (np.log(s[:, 0]) - z[rows, classes]).mean()
    return loss, (e / s, classes)


def backward(dy, cache):
    p, classes = cache
    dx = p.copy()
    dx[np.arange(len(p)), classes] -= 1
    return dx * (dy / np.float32(len(p)))
