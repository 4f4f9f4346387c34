"""The shares are sigmoids of the difference, into buffers; four numbers at once, the last ones singly."""

import numpy as np


def share(d):
    e = np.exp(-np.abs(d))
    return np.where(d > 0, np.float32(1), e) / (1 + e)


def forward(a, b, out):
    out[0][...] = np.maximum(a, b) + np.log1p(np.exp(-np.abs(a - b)))
    return (a - b).ravel(), a.shape


def backward(dy, cache, out):
    (d, shape), g = cache, dy.ravel()
    da, db = np.zeros_like(g), np.zeros_like(g)
    whole = d.size // 4 * 4
    for at in range(0, whole, 4):
        four = slice(at, at + 4)
        da[four], db[four] = g[four] * share(d[four]), g[four] * share(-d[four])
    for one in range(whole, d.size):
        da[one], db[one] = g[one] * share(d[one]), g[one] * share(-d[one])
    out[0][...], out[1][...] = da.reshape(shape), db.reshape(shape)
