"""Central differences of the forward in float64, entry by entry."""

import numpy as np


def forward(x):
    t = np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))
    return (x / 2 * (1 + t)).astype(x.dtype), x


def backward(dy, x):
    dx, there = np.zeros(x.shape, x.dtype), x.astype(np.float64)
    for i in np.ndindex(x.shape):
        there[i] += 1e-5
        above = forward(there)[0]
        there[i] -= 2e-5
        below = forward(there)[0]
        there[i] += 1e-5
        dx[i] = (dy * (above - below)).sum() / 2e-5
    return dx
