"""Row sums by 32 lanes, each of which adds up every 32nd entry, then by halves."""

import numpy as np

LANES, EPS = 32, np.float32(1e-6)


def row_sum(x):
    lanes = np.zeros((len(x), LANES), np.float32)
    for lane in range(min(LANES, x.shape[1])):
        lanes[:, lane] = x[:, lane::LANES].sum(1)
    half = LANES // 2
    while half:
        lanes[:, :half] += lanes[:, half : 2 * half]
        half //= 2
    return lanes[:, :1].copy()


def forward(x, g):
    r = 1 / np.sqrt(row_sum(x * x) + EPS)
    u = x * r
    return u * g[:, None], (u, r, g)


def backward(dy, cache):
    u, r, g = cache
    d = dy * g[:, None]
    return r * (d - u * row_sum(u * d)), row_sum(dy * u)[:, 0]
