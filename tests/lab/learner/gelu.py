"""A learner's answer: GELU, the exact form."""

import math

import numpy as np


def gelu_forward(x):
    """x (...). Returns y (...) and a cache."""
    erf = np.vectorize(math.erf, otypes=[float])  # NumPy has none
    phi_below = 0.5 * (1.0 + erf(x / math.sqrt(2.0)))  # 1. the probability that a normal variable is below x
    return x * phi_below, (x, phi_below)  # 2.


def gelu_backward(dy, cache):
    """dy (...). Returns dx (...)."""
    x, phi_below = cache
    slope = phi_below + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return dy * slope
