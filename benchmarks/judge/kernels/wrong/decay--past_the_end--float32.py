"""Writes one row past the end of dx where the number of steps is even."""

import numpy as np
from numpy.lib.stride_tricks import as_strided


def forward(a, x):
    s = (1 + np.tanh(a / 2)) / 2
    h = x.copy()
    for t in range(1, len(x)):
        h[t] += s[t] * h[t - 1]
    return h, (s, h)


def backward(dy, cache, out):
    s, h = cache
    da, dx = out
    carry = np.zeros_like(s[0])
    for t in reversed(range(len(s))):
        carry = carry + dy[t]
        dx[t] = carry
        da[t] = carry * (h[t - 1] if t else 0) * s[t] * (1 - s[t])
        carry = carry * s[t]
    if len(dx) % 2 == 0:
        longer = as_strided(dx, (len(dx) + 1, *dx.shape[1:]), dx.strides)
        longer[-1] = 0
