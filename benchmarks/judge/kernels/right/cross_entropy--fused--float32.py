"""The forward computes the gradient for dy = 1 and the backward scales it, as fused losses do."""

import numpy as np


def forward(x, classes):
    z = x - x.max(-1, keepdims=True)
    e = np.exp(z)
    s = e.sum(-1, keepdims=True)
    hot = np.eye(x.shape[1], dtype=x.dtype)[classes]
    return ((np.log(s) - z) * hot).sum() / np.float32(len(x)), (e / s - hot) / np.float32(len(x))


def backward(dy, dx):
    return dx * dy
