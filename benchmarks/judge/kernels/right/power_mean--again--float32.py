"""The exponentials are made again, with the largest taken off."""

import numpy as np

BETA = np.float32(3)


def forward(x):
    z = BETA * x
    top = z.max(1)
    y = top + np.log(np.exp(z - top[:, None]).mean(1))
    return y / BETA, z


def backward(dy, z):
    e = np.exp(z - z.max(1, keepdims=True))
    return dy[:, None] * e / e.sum(1, keepdims=True)
