"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x):
    y = np.logaddexp(0, x)
    return bfloat16(y), x


def backward(dy, x):
    half = np.tanh(x / 2)
    return bfloat16(dy * (1 + half) / 2)
