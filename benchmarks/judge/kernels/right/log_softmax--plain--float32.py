"""As the textbook has it."""

import numpy as np


def forward(x):
    z = x - x.max(-1, keepdims=True)
    y = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return y, y


def backward(dy, y):
    return dy - np.exp(y) * dy.sum(-1, keepdims=True)
