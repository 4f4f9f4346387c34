"""Writes a number before the start of dx."""

import ctypes

import numpy as np


def forward(x, gamma):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))
    return gamma * (x * r), (x, r, gamma)


def backward(dy, cache, out):
    x, r, gamma = cache
    h, g = x * r, gamma * dy
    ctypes.cast(out[0].ctypes.data, ctypes.POINTER(ctypes.c_float))[-1] = 1.0
    out[0][...] = r * (g - h * (g * h).mean(-1, keepdims=True))
    out[1][...] = (dy * h).sum(0)
