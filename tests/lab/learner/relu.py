"""A learner's answer: ReLU."""

import numpy as np


def relu_forward(x):
    """x (...). Returns y (...) and a cache."""
    is_open = x > 0
    return np.where(is_open, x, 0.0), is_open


def relu_backward(dy, cache):
    """dy (...). Returns dx (...)."""
    return dy * cache
