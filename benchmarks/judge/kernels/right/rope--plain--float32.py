"""Turned back by the opposite angle."""

import numpy as np


def forward(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1), (cos, sin)


def backward(dy, cache):
    cos, sin = cache
    a, b = np.split(dy, 2, axis=-1)
    return np.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1), None, None
