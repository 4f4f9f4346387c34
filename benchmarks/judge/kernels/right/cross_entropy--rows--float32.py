"""A row at a time, the logarithm of the sum kept instead of the probabilities; into buffers."""

import numpy as np


def forward(x, classes, out):
    total, kept = np.float32(0), []
    for row, wanted in zip(x, classes, strict=True):
        top = row.max()
        kept.append(np.log(np.exp(row - top).sum()) + top)
        total += kept[-1] - row[wanted]
    out[0][...] = total / np.float32(len(x))
    return x, classes, kept


def backward(dy, cache, out):
    x, classes, kept = cache
    for row, wanted in enumerate(classes):
        out[0][row] = np.exp(x[row] - kept[row]) * (dy / np.float32(len(x)))
        out[0][row, wanted] -= dy / np.float32(len(x))
