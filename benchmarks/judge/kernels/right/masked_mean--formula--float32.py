"""As its formula reads."""

import numpy as np


def forward(x, mask):
    weights = mask[:, :, None] / np.maximum(mask.sum(1), 1)[:, None, None].astype(np.float32)
    return (weights * x).sum(1), weights


def backward(dy, weights):
    g = dy[:, None, :]
    return weights * g
