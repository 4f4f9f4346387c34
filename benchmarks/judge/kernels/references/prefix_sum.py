"""y = the sums of x (N, C) over a row so far."""

import numpy as np


def inputs(rng):
    return (rng.normal(size=(3, 19)),)


def forward(x):
    lower = np.tril(np.ones((x.shape[1], x.shape[1])))
    return x @ lower.T, lower


def backward(dy, lower):
    return dy @ lower
