"""One pass over a row in blocks of eight, the sum scaled anew at each larger maximum."""

import numpy as np

BLOCK = 8


def forward(x):
    top, total = np.full(len(x), -np.inf, x.dtype), np.zeros(len(x), x.dtype)
    for start in range(0, x.shape[1], BLOCK):
        block = x[:, start : start + BLOCK]
        new = np.maximum(top, block.max(1))
        total = total * np.exp(top - new) + np.exp(block - new[:, None]).sum(1)
        top = new
    y = top + np.log(total)
    return y, (x, y)


def backward(dy, cache):
    x, y = cache
    return dy[:, None] * np.exp(x - y[:, None])
