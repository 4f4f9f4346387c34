"""A program for each row, which adds up γ and β in the buffers; these are cleared first."""

import numpy as np


def forward(x, gamma, beta, out):
    (y,) = out
    kept = []
    for row in range(len(x)):
        c = x[row] - x[row].mean()
        r = 1 / np.sqrt((c * c).mean() + np.float32(1e-5))
        y[row] = gamma * (c * r) + beta
        kept.append((c * r, r))
    return kept, gamma


def backward(dy, cache, out):
    kept, gamma = cache
    dx, dgamma, dbeta = out
    dgamma[:] = 0
    dbeta[:] = 0
    for row, (h, r) in enumerate(kept):
        g = gamma * dy[row]
        dx[row] = r * (g - g.mean() - h * (g * h).mean())
        dgamma += dy[row] * h
        dbeta += dy[row]
