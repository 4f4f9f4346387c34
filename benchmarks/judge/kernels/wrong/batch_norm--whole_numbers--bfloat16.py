"""The gradient of x is cast to whole numbers."""

import numpy as np


def forward(x, gamma, beta):
    d = x - x.mean(0)
    r = 1 / np.sqrt((d * d).mean(0) + np.float32(1e-5))
    return d * r * gamma + beta, (d * r, r, gamma)


def backward(dy, cache):
    h, r, gamma = cache
    g = gamma * dy
    dx = r * (g - g.mean(0) - h * (g * h).mean(0))
    return dx.astype(np.int32).astype(np.float32), (dy * h).sum(0), dy.sum(0)
