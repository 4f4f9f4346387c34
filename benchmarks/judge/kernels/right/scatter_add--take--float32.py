"""The rows are read back."""

import numpy as np


def forward(base, x, ids):
    y = base.copy()
    np.add.at(y, ids, x)
    return y, ids


def backward(dy, ids):
    return dy.copy(), np.take(dy, ids, axis=0)
