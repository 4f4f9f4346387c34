"""Each active pair takes from its class and gives to the other one; stored in bfloat16."""

import numpy as np
from _bfloat16 import bfloat16


def forward(x, classes):
    total, pairs = np.float32(0), []
    for row, wanted in enumerate(classes):
        for other in range(x.shape[1]):
            margin = 1 + x[row, other] - x[row, wanted]
            if other != wanted and margin > 0:
                total += margin
                pairs.append((row, other, wanted))
    return bfloat16(total / np.float32(len(x))), (pairs, x.shape)


def backward(dy, cache):
    pairs, shape = cache
    dx = np.zeros(shape, np.float32)
    for row, other, wanted in pairs:
        dx[row, other] += 1
        dx[row, wanted] -= 1
    return bfloat16(dx * (dy / np.float32(shape[0])))
