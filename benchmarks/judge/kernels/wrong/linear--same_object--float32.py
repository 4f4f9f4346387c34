"""The gradients are the same arrays at each call: the next call writes over what the last one returned."""

import numpy as np

results = {}


def forward(x, w, b):
    return x @ w + b, (x, w)


def backward(dy, cache):
    x, w = cache
    dx, dw, db = results.setdefault(x.shape, (np.zeros_like(x), np.zeros_like(w), np.zeros(w.shape[1], w.dtype)))
    dx[...], dw[...], db[...] = dy @ w.T, x.T @ dy, dy.sum(0)
    return dx, dw, db
