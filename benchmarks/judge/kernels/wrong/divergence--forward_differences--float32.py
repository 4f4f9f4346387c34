"""Slopes by evaluating the forward at shifted scores."""

import numpy as np


def forward(x, p):
    z = x - x.max(1, keepdims=True)
    log_q = z - np.log(np.exp(z).sum(1, keepdims=True))
    return (p * (np.log(p) - log_q)).sum(1), (x, p)


def backward(dy, cache):
    x, p = (np.asarray(a, dtype=np.float64) for a in cache)
    dx, step = np.empty_like(x), 1e-6
    for column in range(x.shape[1]):
        shifted = [x.copy(), x.copy()]
        shifted[0][:, column] += step
        shifted[1][:, column] -= step
        up, down = (forward(s, p)[0] for s in shifted)
        dx[:, column] = dy * (up - down) / (2 * step)
    return dx.astype(np.float32)
