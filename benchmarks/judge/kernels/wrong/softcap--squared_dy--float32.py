"""Not linear: dy comes in twice."""

import numpy as np


def forward(x):
    t = np.tanh(x / 5)
    return 5 * t, t


def backward(dy, t):
    return dy * np.abs(dy) * (1 - t * t)
