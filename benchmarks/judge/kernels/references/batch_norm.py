"""y = gamma (x - mean) / sqrt(variance + 1e-5) + beta, by the columns of x (N, C)."""

import numpy as np


def inputs(rng):
    return rng.normal(size=(16, 6)), 1 + 0.2 * rng.normal(size=6), rng.normal(size=6)


def forward(x, gamma, beta):
    centred = x - x.sum(0) / len(x)
    r = 1 / np.sqrt((centred * centred).sum(0) / len(x) + 1e-5)
    h = centred * r
    return gamma * h + beta, (h, r, gamma)


def backward(dy, cache):
    h, r, gamma = cache
    g = gamma * dy
    return r * (g - g.mean(0) - h * (g * h).mean(0)), (dy * h).sum(0), dy.sum(0)
