"""The sigmoid with the exponential of -|x|, made again in backward."""

import numpy as np


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x > 0, np.float32(1), e) / (1 + e)


def forward(x):
    return x * sigmoid(x), x


def backward(dy, x):
    s = sigmoid(x)
    return dy * s * (1 + x * (1 - s))
