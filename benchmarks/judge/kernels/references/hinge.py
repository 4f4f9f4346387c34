"""The mean over rows of the sum of max(0, 1 + x_j - x_class) over the other classes."""

import numpy as np

REGIMES = {"x": ("times 3", "times 10", "negative"), "classes": "ids"}


def inputs(rng):
    return 2 * rng.normal(size=(6, 8)), rng.integers(0, 8, size=6)


def forward(x, classes):
    hot = np.eye(x.shape[1])[classes]
    margin = 1 + x - (x * hot).sum(1, keepdims=True)
    active = (margin.real > 0) * (1 - hot)
    return (margin * active).sum() / len(x), (active, hot)


def backward(dy, cache):
    active, hot = cache
    return dy * (active - hot * active.sum(1, keepdims=True)) / len(hot)
