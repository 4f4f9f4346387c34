"""The backward draws a mask of its own."""

import numpy as np

RNG = np.random.default_rng(0)


def forward(x, r, mask):
    return r + x * mask / np.float32(0.75), mask


def backward(dy, mask):
    return dy * (RNG.uniform(size=mask.shape) < 0.75) / np.float32(0.75), dy
