"""As the reference has it, in float32."""

import numpy as np


def forward(a, b):
    s = 1 / (1 + np.exp(-a))
    return a * s * b, (a, b, s)


def backward(dy, cache):
    a, b, s = cache
    return dy * b * s * (1 + a * (1 - s)), dy * a * s
