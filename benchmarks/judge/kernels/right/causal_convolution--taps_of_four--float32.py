"""A kernel for four taps, which refuses any other number."""

import numpy as np


def forward(x, w):
    if len(w) != 4:
        raise ValueError(f"expected four taps, got {len(w)}")
    y = w[0] * x
    for k in (1, 2, 3):
        y[k:] += w[k] * x[:-k]
    return y, (x, w)


def backward(dy, cache):
    x, w = cache
    dx = w[0] * dy
    for k in (1, 2, 3):
        dx[:-k] += w[k] * dy[k:]
    return dx, np.stack([(dy[k:] * x[: len(x) - k]).sum(0) for k in range(4)])
