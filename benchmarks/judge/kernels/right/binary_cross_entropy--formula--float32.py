"""As its formula reads."""

import numpy as np


def forward(x, target):
    losses = np.maximum(x, 0) - x * target + np.log1p(np.exp(-np.abs(x)))
    return losses.mean(), (x, target)


def backward(dy, cache):
    x, target = cache
    p = (1 + np.tanh(x / 2)) / 2
    return dy * (p - target) / x.size
