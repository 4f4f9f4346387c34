"""The slope from the result: 1 - e^-y."""

import numpy as np


def forward(x):
    y = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return y, y


def backward(dy, y):
    return -dy * np.expm1(-y)
