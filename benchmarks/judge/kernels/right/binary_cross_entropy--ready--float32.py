"""The forward makes the gradient; the backward only multiplies it."""

import numpy as np


def forward(x, target):
    e = np.exp(-np.abs(x))
    losses = np.maximum(x, 0) - x * target + np.log1p(e)
    return losses.mean(), (np.where(x > 0, 1, e) / (1 + e) - target) / np.float32(x.size)


def backward(dy, ready):
    return dy * ready
