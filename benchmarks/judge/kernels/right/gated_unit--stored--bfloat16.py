"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16

SLOPE = 1.702


def forward(a, b):
    s = (1 + np.tanh(SLOPE / 2 * a)) / 2
    return bfloat16(a * s * b), (a, b, s)


def backward(dy, cache):
    a, b, s = cache
    inner = s + SLOPE * a * s * (1 - s)
    return bfloat16(dy * b * inner), bfloat16(dy * a * s)
