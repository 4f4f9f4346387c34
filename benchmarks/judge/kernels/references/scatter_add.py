"""y (R, C) = base, to whose rows those of x (N, C) are added at ids (N,)."""

import numpy as np

REGIMES = {"ids": "ids"}


def inputs(rng):
    ids = rng.integers(0, 8, size=11)
    ids[-1] = ids[0]
    return rng.normal(size=(8, 6)), rng.normal(size=(11, 6)), ids


def forward(base, x, ids):
    return base + np.eye(len(base))[ids].T @ x, ids


def backward(dy, ids):
    return 1 * dy, dy[ids]
