"""y (N, B) = the largest of each eight columns of x (N, C), the last block as long as it is. Ties: the first."""

import numpy as np

WIDE = 8
REGIMES = {"x": ("offset", "times 3", "times 10", "negative")}


def inputs(rng):
    return (rng.normal(size=(4, 21)),)


def forward(x):
    columns = x.shape[1]
    starts = np.arange(0, columns, WIDE)
    at = np.stack([s + x.real[:, s : s + WIDE].argmax(1) for s in starts], axis=1)
    hot = np.eye(columns)[at]
    return (hot * x[:, None, :]).sum(2), hot


def backward(dy, hot):
    return (dy[:, :, None] * hot).sum(1)
