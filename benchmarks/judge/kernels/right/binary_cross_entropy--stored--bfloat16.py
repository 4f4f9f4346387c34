"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x, target):
    losses = np.maximum(x, 0) - x * target + np.log1p(np.exp(-np.abs(x)))
    return bfloat16(losses.mean()), (x, target)


def backward(dy, cache):
    x, target = cache
    p = (1 + np.tanh(x / 2)) / 2
    return bfloat16(dy * (p - target) / x.size)
