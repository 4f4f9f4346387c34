"""The same sums from the other end."""

import numpy as np


def forward(x):
    return np.cumsum(x, axis=1), None


def backward(dy, cache):
    return np.cumsum(dy[:, ::-1], axis=1)[:, ::-1]
