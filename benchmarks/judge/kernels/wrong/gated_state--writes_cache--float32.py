"""Computes in the memory of its cache, so that a second backward of one forward is another."""

import numpy as np


def forward(g, n, h):
    z, m = (1 + np.tanh(g / 2)) / 2, np.tanh(n)
    return (1 - z) * m + z * h, (z, m, h)


def backward(dy, cache):
    z, m, h = cache
    dh = dy * z
    dg = dy * (h - m) * z * (1 - z)
    m *= m
    return dg, dy * (1 - z) * (1 - m), dh
