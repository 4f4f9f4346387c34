"""The class gets the number of active ones with the other sign."""

import numpy as np


def forward(x, classes):
    rows = np.arange(len(x))
    margin = 1 + x - x[rows, classes][:, None]
    margin[rows, classes] = 0
    active = margin > 0
    return np.where(active, margin, 0).sum(dtype=np.float32) / np.float32(len(x)), (active, classes)


def backward(dy, cache):
    active, classes = cache
    dx = active.astype(np.float32)
    dx[np.arange(len(dx)), classes] = -active.sum(1)
    return dx * (dy / np.float32(len(dx)))
