"""As the textbook has it."""

import numpy as np


def forward(x, gamma):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))
    h = x * r
    return gamma * h, (h, r, gamma)


def backward(dy, cache):
    h, r, gamma = cache
    g = gamma * dy
    return r * (g - h * (g * h).mean(-1, keepdims=True)), (dy * h).sum(0)
