"""The rows of a table that ids name."""

import numpy as np

REGIMES = {"ids": "ids"}
SIZES = ()


def inputs(rng):
    ids = rng.integers(0, 9, size=14)
    ids[-1] = ids[0]
    return rng.normal(size=(9, 6)), ids


def forward(table, ids):
    return table[ids], (ids, len(table))


def backward(dy, cache):
    ids, words = cache
    hot = np.eye(words)[ids]
    return hot.T @ dy
