"""A program for each part, which writes its rows."""

import numpy as np


def forward(x, lengths):
    ends = np.cumsum(lengths)
    y = np.zeros((len(lengths), x.shape[1]), x.dtype)
    for part, (n, end) in enumerate(zip(lengths, ends, strict=True)):
        if n > 0:
            y[part] = x[end - n : end].mean(0)
    return y, (lengths, ends, len(x))


def backward(dy, cache):
    lengths, ends, rows = cache
    dx = np.zeros((rows, dy.shape[1]), dy.dtype)
    for part, (n, end) in enumerate(zip(lengths, ends, strict=True)):
        if n > 0:
            dx[end - n : end] = dy[part] / np.float32(n)
    return dx
