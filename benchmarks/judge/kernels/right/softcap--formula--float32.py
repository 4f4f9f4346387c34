"""As its formula reads."""

import numpy as np

CAP = 5


def forward(x):
    t = np.tanh(x / CAP)
    return CAP * t, t


def backward(dy, t):
    slope = 1 - t * t
    return dy * slope
