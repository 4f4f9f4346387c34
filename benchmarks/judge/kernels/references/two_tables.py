"""y (N, C) = the rows of two tables that words and places name, added."""

import numpy as np

REGIMES = {"words": "ids", "places": "ids"}


def inputs(rng):
    words = rng.integers(0, 11, size=13)
    words[-1] = words[0]
    return rng.normal(size=(11, 5)), rng.normal(size=(6, 5)), words, rng.integers(0, 6, size=13)


def forward(table, other, words, places):
    return table[words] + other[places], (words, places, len(table), len(other))


def backward(dy, cache):
    words, places, n, m = cache
    return np.eye(n)[words].T @ dy, np.eye(m)[places].T @ dy
