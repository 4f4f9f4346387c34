"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x):
    top = x.max(1, keepdims=True)
    e = np.exp(x - top)
    total = e.sum(1, keepdims=True)
    return bfloat16((top + np.log(total))[:, 0]), e / total


def backward(dy, p):
    g = dy[:, None]
    return bfloat16(g * p)
