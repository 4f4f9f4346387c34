"""The slope at 0, everywhere."""

import numpy as np


def forward(x):
    return np.logaddexp(0, x), x


def backward(dy, x):
    return np.full_like(x, 0.5)
