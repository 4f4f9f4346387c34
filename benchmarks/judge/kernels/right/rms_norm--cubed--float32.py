"""The backward in x and r³ instead of x̂."""

import numpy as np


def forward(x, gamma):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))
    return gamma * x * r, (x, r, gamma)


def backward(dy, cache):
    x, r, gamma = cache
    g = gamma * dy
    return r * g - x * r**3 * (g * x).mean(-1, keepdims=True), (dy * x * r).sum(0)
