"""A flat loop over blocks of 16, into buffers, by ctypes as a foreign kernel does."""

import ctypes

import numpy as np

BLOCK = 16


def floats(array):
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_float))


def forward(x, target, out):
    d = x - target
    source, y = floats(d), floats(out[0])
    for i in range(d.size):
        y[i] = source[i] ** 2 / 2 if abs(source[i]) < 1 else abs(source[i]) - 0.5
    return d


def backward(dy, d, out):
    upstream = np.ascontiguousarray(dy)
    source, above, dx = floats(d), floats(upstream), floats(out[0])
    for start in range(0, d.size, BLOCK):
        for i in range(start, min(start + BLOCK, d.size)):
            dx[i] = above[i] * max(-1.0, min(1.0, source[i]))
