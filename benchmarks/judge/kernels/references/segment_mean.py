"""y (S, C) = the means of consecutive parts of x (N, C); lengths (S,); 0 for a part without rows."""

import numpy as np


def inputs(rng):
    return rng.normal(size=(12, 5)), np.array([4, 1, 5, 2])


def forward(x, lengths):
    part = np.repeat(np.arange(len(lengths)), lengths)
    share = np.eye(len(lengths))[part] / np.maximum(lengths, 1)
    return share.T @ x, share


def backward(dy, share):
    return share @ dy
