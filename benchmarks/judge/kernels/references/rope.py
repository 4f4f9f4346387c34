"""Rotary positions: the two halves of a row as the coordinates of points that turn."""

import numpy as np

CONSTANT = ("cos", "sin")
REGIMES = {"x": "rows"}
SIZES = ()


def inputs(rng):
    angles = rng.uniform(-3, 3, size=(6, 8))
    return rng.normal(size=(6, 16)), np.cos(angles), np.sin(angles)


def forward(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1), (cos, sin)


def backward(dy, cache):
    cos, sin = cache
    half = dy.shape[-1] // 2
    a, b = dy[:, :half], dy[:, half:]
    return np.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1)
