"""Rows in vectors of four, then of two, then one by one."""

import numpy as np


def forward(a, b):
    return np.einsum("nc,nc->n", a, b), (a, b)


def times(dy, x):
    dx, at = np.zeros_like(x), 0
    for wide in (4, 2, 1):
        while at + wide <= x.shape[1]:
            dx[:, at : at + wide] = dy[:, None] * x[:, at : at + wide]
            at += wide
    return dx


def backward(dy, cache):
    a, b = cache
    return times(dy, b), times(dy, a)
