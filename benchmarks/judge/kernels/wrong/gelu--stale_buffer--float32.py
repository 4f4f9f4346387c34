"""One buffer for all calls: the forward of the next layer writes over what this backward needs."""

import numpy as np

buffers = {}


def forward(x):
    t = buffers.setdefault(x.shape, np.zeros_like(x))
    np.tanh(np.float32(0.7978846) * (x + np.float32(0.044715) * x**3), out=t)
    return x / 2 * (1 + t), (x, t)


def backward(dy, cache):
    x, t = cache
    slope = np.float32(0.7978846) * (1 + 3 * np.float32(0.044715) * x * x)
    return dy * ((1 + t) / 2 + x / 2 * (1 - t * t) * slope)
