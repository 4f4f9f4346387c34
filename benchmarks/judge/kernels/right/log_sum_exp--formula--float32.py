"""As its formula reads."""

import numpy as np


def forward(x):
    top = x.max(1, keepdims=True)
    e = np.exp(x - top)
    total = e.sum(1, keepdims=True)
    return (top + np.log(total))[:, 0], e / total


def backward(dy, p):
    g = dy[:, None]
    return g * p
