"""Row sums in blocks of 16."""

import numpy as np

BLOCK = 16


def row_sum(x):
    total = np.zeros_like(x[:, :1])
    for start in range(0, x.shape[1], BLOCK):
        total = total + x[:, start : start + BLOCK].sum(1, keepdims=True)
    return total


def forward(x, gamma):
    r = 1 / np.sqrt(row_sum(x * x) / x.shape[1] + np.float32(1e-6))
    return gamma * (x * r), (x, r, gamma)


def backward(dy, cache):
    x, r, gamma = cache
    h, g = x * r, gamma * dy
    return r * (g - h * (row_sum(g * h) / x.shape[1])), (dy * h).sum(0)
