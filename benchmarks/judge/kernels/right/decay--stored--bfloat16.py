"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(a, x):
    s = (1 + np.tanh(a / 2)) / 2
    h = np.zeros_like(s * x)
    for t in range(len(x)):
        h[t] = x[t] + (s[t] * h[t - 1] if t else 0)
    return bfloat16(h), (s, h)


def backward(dy, cache):
    s, h = cache
    da, dx, carry = np.zeros_like(s), np.zeros_like(s), np.zeros_like(s[0])
    for t in reversed(range(len(s))):
        carry = carry + dy[t]
        dx[t] = carry
        da[t] = carry * (h[t - 1] if t else 0) * s[t] * (1 - s[t])
        carry = carry * s[t]
    return bfloat16(da), bfloat16(dx)
