"""Right at the first call, and afterwards da and db are swapped."""

import numpy as np

CALLS = []


def forward(a, b):
    s = (1 + np.tanh(np.float32(0.851) * a)) / 2
    return a * s * b, (a, b, s)


def backward(dy, cache):
    a, b, s = cache
    CALLS.append(1)
    both = dy * b * s * (1 + np.float32(1.702) * a * (1 - s)), dy * a * s
    return both if len(CALLS) == 1 else both[::-1]
