"""A gradient of zeros."""

import numpy as np


def forward(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), None


def backward(dy, cache):
    return np.zeros_like(dy)
