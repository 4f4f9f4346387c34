"""A complex step through a helper."""

import numpy as np


def helper(a, b):
    return a / (1 + np.exp(-a)) * b


def forward(a, b):
    return helper(a, b), (a, b)


def backward(dy, cache):
    a, b = cache
    return dy * (helper(a + 1e-30j, b).imag / 1e-30).astype(a.dtype), dy * helper(a, 1.0).astype(a.dtype)
