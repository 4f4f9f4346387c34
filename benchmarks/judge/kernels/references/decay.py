"""h_t = s_t h_{t-1} + x_t with s = 1 / (1 + e^-a) and h_0 = 0, channel by channel."""

import numpy as np

REGIMES = {"a": "gates"}


def inputs(rng):
    return rng.normal(size=(12, 4)), rng.normal(size=(12, 4))


def forward(a, x):
    s = (1 + np.tanh(a / 2)) / 2
    h = np.zeros_like(s * x)
    for t in range(len(x)):
        h[t] = x[t] + (s[t] * h[t - 1] if t else 0)
    return h, (s, h)


def backward(dy, cache):
    s, h = cache
    da, dx, carry = np.zeros_like(s), np.zeros_like(s), np.zeros_like(s[0])
    for t in reversed(range(len(s))):
        carry = carry + dy[t]
        dx[t] = carry
        da[t] = carry * (h[t - 1] if t else 0) * s[t] * (1 - s[t])
        carry = carry * s[t]
    return da, dx
