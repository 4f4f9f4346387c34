"""The places of the maxima are kept."""

import numpy as np

WIDE = 8


def forward(x):
    starts = range(0, x.shape[1], WIDE)
    at = np.stack([s + x[:, s : s + WIDE].argmax(1) for s in starts], axis=1)
    return np.take_along_axis(x, at, 1), (at, x.shape)


def backward(dy, cache):
    at, shape = cache
    dx = np.zeros(shape, dy.dtype)
    np.put_along_axis(dx, at, dy, axis=1)
    return dx
