"""A learner's answer: Dropout, its mask given."""

import numpy as np


def dropout_forward(x, keep, scale):
    """x (...), keep boolean like x, scale = 1/(1 − rate). Returns y (...) and a cache.

    keep None: nothing is dropped and nothing scaled.
    """
    if keep is None:
        keep, scale = True, 1.0
    return np.where(keep, x * scale, 0.0), (keep, scale)


def dropout_backward(dy, cache):
    """dy (...). Returns dx (...)."""
    keep, scale = cache
    return dy * keep * scale
