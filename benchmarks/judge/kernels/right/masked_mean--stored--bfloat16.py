"""Computed in float32, stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x, mask):
    weights = mask[:, :, None] / np.maximum(mask.sum(1), 1)[:, None, None].astype(np.float32)
    return bfloat16((weights * x).sum(1)), weights


def backward(dy, weights):
    g = dy[:, None, :]
    return bfloat16(weights * g)
