"""y (N,) = log of the mean of e^(beta x) over a row, divided by beta."""

import numpy as np

BETA = 3.0
REGIMES = {"x": "scores"}


def inputs(rng):
    return (rng.normal(size=(5, 14)),)


def forward(x):
    z = BETA * x
    top = z.real.max(1, keepdims=True)
    e = np.exp(z - top)
    total = e.sum(1, keepdims=True)
    return ((top + np.log(total) - np.log(x.shape[1])) / BETA)[:, 0], e / total


def backward(dy, p):
    return dy[:, None] * p
