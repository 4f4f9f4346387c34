"""The gradient of r is dy itself."""

import numpy as np


def forward(x, r, mask):
    return r + np.where(mask, x * np.float32(4 / 3), 0), mask


def backward(dy, mask):
    return np.where(mask, dy * np.float32(4 / 3), 0), dy
