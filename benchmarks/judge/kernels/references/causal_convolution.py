"""y_t = the sum over k of w_k x_{t-k}, channel by channel; before the first row x is 0."""

import numpy as np


def inputs(rng):
    return rng.normal(size=(14, 5)), rng.normal(size=(4, 5))


def forward(x, w):
    y = np.zeros_like(x * w[:1])
    for k in range(min(len(w), len(x))):
        y[k:] += w[k] * x[: len(x) - k]
    return y, (x, w)


def backward(dy, cache):
    x, w = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for k in range(min(len(w), len(x))):
        dx[: len(x) - k] += w[k] * dy[k:]
        dw[k] = (dy[k:] * x[: len(x) - k]).sum(0)
    return dx, dw
