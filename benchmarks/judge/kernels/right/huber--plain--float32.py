"""The difference, clipped."""

import numpy as np


def forward(x, target):
    d = x - target
    size = np.abs(d)
    return np.where(size < 1, d * d / 2, size - np.float32(0.5)), d


def backward(dy, d):
    return dy * np.clip(d, -1, 1), None
