"""A product with one-hot rows, summed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(table, ids):
    return table[ids], np.eye(len(table), dtype=np.float32)[ids]


def backward(dy, hot):
    return bfloat16(hot.T @ dy)
