"""The forward zeroes the padded tokens in the memory of its input."""

import numpy as np


def forward(x, mask):
    x[~mask] = 0
    count = np.maximum(mask.sum(1), 1).astype(np.float32)[:, None]
    return x.sum(1) / count, (mask, count)


def backward(dy, cache):
    mask, count = cache
    return mask[:, :, None] * (dy / count)[:, None, :]
