"""The backward computes the forward again, at the same numbers, as a checkpoint does."""

import numpy as np


def forward(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), x


def backward(dy, x):
    y, _ = forward(x)
    return y * (dy - (dy * y).sum(-1, keepdims=True))
