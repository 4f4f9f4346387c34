"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x, target):
    d = x - target
    size = np.abs(d)
    return bfloat16(np.where(size < 1, d * d / 2, size - np.float32(0.5))), d


def backward(dy, d):
    return bfloat16(dy * np.clip(d, -1, 1))
