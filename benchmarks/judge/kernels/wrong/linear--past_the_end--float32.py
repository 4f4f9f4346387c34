"""Writes a number past the end of the gradient of the weights."""

import ctypes


def forward(x, w, b):
    return x @ w + b, (x, w)


def backward(dy, cache, out):
    x, w = cache
    out[0][...], out[1][...], out[2][...] = dy @ w.T, x.T @ dy, dy.sum(0)
    ctypes.cast(out[1].ctypes.data, ctypes.POINTER(ctypes.c_float))[w.size] = 0.0
