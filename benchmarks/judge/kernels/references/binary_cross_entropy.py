"""y = the mean over all entries of log(1 + e^x) - x target."""

import numpy as np

CONSTANT = ("target",)
REGIMES = {"x": "gates"}


def inputs(rng):
    return 2 * rng.normal(size=(5, 13)), rng.uniform(size=(5, 13))


def forward(x, target):
    large = np.where(x.real > 0, x, 0)
    losses = large - x * target + np.log(1 + np.exp(-np.where(x.real > 0, x, -x)))
    return losses.mean(), (x, target)


def backward(dy, cache):
    x, target = cache
    p = (1 + np.tanh(x / 2)) / 2
    return dy * (p - target) / x.size
