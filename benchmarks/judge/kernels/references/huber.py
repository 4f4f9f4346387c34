"""The Huber loss of each entry, with a target that wants no gradient."""

import numpy as np

CONSTANT = ("target",)
REGIMES = {"x": ("times 10", "tiny", "saturated")}


def inputs(rng):
    return 2 * rng.normal(size=(6, 15)), rng.normal(size=(6, 15))


def forward(x, target):
    d = x - target
    size = np.where(d.real > 0, d, -d)
    return np.where(size.real < 1, 0.5 * d * d, size - 0.5), d


def backward(dy, d):
    return dy * np.where(d < -1, -1.0, np.where(d > 1, 1.0, d))
