"""With |v|³, as the derivative of a quotient reads."""

import numpy as np


def forward(v, g):
    squares = (v * v).sum(1, keepdims=True) + np.float32(1e-6)
    return g[:, None] * v / np.sqrt(squares), (v, g, squares)


def backward(dy, cache):
    v, g, squares = cache
    root = np.sqrt(squares)
    along = (dy * v).sum(1, keepdims=True)
    return g[:, None] * (dy / root - v * along / (squares * root)), (along / root)[:, 0]
