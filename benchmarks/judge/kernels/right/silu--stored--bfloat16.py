"""The sigmoid by a tanh, in float32; results in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x):
    s = (1 + np.tanh(x / 2)) / 2
    return bfloat16(x * s), (x, s)


def backward(dy, cache):
    x, s = cache
    return bfloat16(dy * s * (1 + x * (1 - s)))
