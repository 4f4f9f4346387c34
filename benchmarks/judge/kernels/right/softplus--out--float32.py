"""Writes into the memory that it is given, a row at a time."""

import numpy as np


def forward(x, out):
    for row, to in zip(x, out[0], strict=True):
        to[...] = np.logaddexp(0, row)
    return x


def backward(dy, x, out):
    for row, g, to in zip(x, dy, out[0], strict=True):
        e = np.exp(-np.abs(row))
        to[...] = g * np.where(row > 0, 1, e) / (1 + e)
