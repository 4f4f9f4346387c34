"""As its formula reads."""

import numpy as np


def forward(x):
    y = np.logaddexp(0, x)
    return y, x


def backward(dy, x):
    half = np.tanh(x / 2)
    return dy * (1 + half) / 2
