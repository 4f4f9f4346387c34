"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16

CAP = 5


def forward(x):
    t = np.tanh(x / CAP)
    return bfloat16(CAP * t), t


def backward(dy, t):
    slope = 1 - t * t
    return bfloat16(dy * slope)
