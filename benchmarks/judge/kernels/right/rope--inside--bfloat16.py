"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return bfloat16(np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)), (cos, sin)


def backward(dy, cache):
    cos, sin = cache
    a, b = np.split(dy, 2, axis=-1)
    return bfloat16(np.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1))
