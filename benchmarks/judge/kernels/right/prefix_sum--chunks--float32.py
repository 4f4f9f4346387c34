"""Chunks of 64 columns, each with what later chunks hand on."""

import numpy as np

CHUNK = 64


def forward(x):
    y, so_far = np.empty_like(x), np.zeros_like(x[:, :1])
    for start in range(0, x.shape[1], CHUNK):
        y[:, start : start + CHUNK] = so_far + np.cumsum(x[:, start : start + CHUNK], axis=1)
        so_far = y[:, start : start + CHUNK][:, -1:]
    return y, None


def backward(dy, cache):
    dx, carry = np.empty_like(dy), np.zeros_like(dy[:, :1])
    for start in reversed(range(0, dy.shape[1], CHUNK)):
        g = dy[:, start : start + CHUNK]
        dx[:, start : start + CHUNK] = carry + np.cumsum(g[:, ::-1], axis=1)[:, ::-1]
        carry = carry + g.sum(1, keepdims=True)
    return dx
