"""GELU by its tanh."""

import numpy as np

REGIMES = {"x": "gates"}
SCALE = (2 / np.pi) ** 0.5


def inputs(rng):
    return (2 * rng.normal(size=(7, 19)),)


def forward(x):
    t = np.tanh(SCALE * (x + 0.044715 * x * x * x))
    return 0.5 * x * (1 + t), (x, t)


def backward(dy, cache):
    x, t = cache
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SCALE * (1 + 3 * 0.044715 * x * x))
