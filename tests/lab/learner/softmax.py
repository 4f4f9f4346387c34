"""A learner's answer: Softmax, with a forward of their own that takes no complex numbers."""

import numpy as np


def softmax_forward(x, visible=None):
    mask = np.broadcast_to(True if visible is None else visible, x.shape)
    y = np.zeros(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        seen = mask[row]
        if seen.any():
            powers = np.exp(x[row][seen] - abs(x[row][seen]).max())
            y[row][seen] = powers / powers.sum()
    return y, {"weights": y}


def softmax_backward(dy, cache):
    y = cache["weights"]
    dx = y * dy
    return dx - y * dx.sum(axis=-1, keepdims=True)
