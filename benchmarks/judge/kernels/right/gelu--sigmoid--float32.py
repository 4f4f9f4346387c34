"""By the sigmoid of twice the argument, computed again in the backward."""

import numpy as np

SCALE, CUBIC = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715)


def gate(x):
    return 1 / (1 + np.exp(-2 * SCALE * (x + CUBIC * x * x * x)))


def forward(x):
    return x * gate(x), x


def backward(dy, x):
    s = gate(x)
    return dy * (s + x * s * (1 - s) * 2 * SCALE * (1 + 3 * CUBIC * x * x))
