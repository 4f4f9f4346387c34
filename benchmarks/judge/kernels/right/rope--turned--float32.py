"""One function for both, with the sign of the sine; into buffers."""

import numpy as np


def turn(x, cos, sin, y):
    half = cos.shape[-1]
    y[:, :half] = x[:, :half] * cos - x[:, half:] * sin
    y[:, half:] = x[:, :half] * sin + x[:, half:] * cos


def forward(x, cos, sin, out):
    turn(x, cos, sin, out[0])
    return cos, np.negative(sin)


def backward(dy, cache, out):
    turn(dy, *cache, out[0])
