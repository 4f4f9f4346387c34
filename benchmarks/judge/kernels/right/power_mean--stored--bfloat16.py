"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16

BETA = np.float32(3)


def forward(x):
    z = BETA * x
    top = z.max(1, keepdims=True)
    e = np.exp(z - top)
    y = (top[:, 0] + np.log(e.mean(1))) / BETA
    return bfloat16(y), e / e.sum(1, keepdims=True)


def backward(dy, p):
    return bfloat16(dy[:, None] * p)
