"""Each program sums 64 rows; the partial sums are added up afterwards."""

import numpy as np

ROWS = 64


def forward(x, gamma, beta):
    return gamma * x + beta, (x, gamma)


def over_rows(g):
    starts = range(0, len(g), ROWS)
    partial = np.empty((len(starts), g.shape[1]), np.float32)
    for program, start in enumerate(starts):
        partial[program] = g[start : start + ROWS].sum(0)
    return partial.sum(0)


def backward(dy, cache):
    x, gamma = cache
    return dy * gamma, over_rows(dy * x), over_rows(dy)
