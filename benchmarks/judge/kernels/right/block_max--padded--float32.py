"""Padded with -inf to whole blocks; a mask of the maxima is kept, of ties the first."""

import numpy as np

WIDE = 8


def forward(x):
    rest = -x.shape[1] % WIDE
    blocks = np.pad(x, ((0, 0), (0, rest)), constant_values=-np.inf).reshape(len(x), -1, WIDE)
    first = blocks.argmax(2)
    mask = np.arange(WIDE) == first[:, :, None]
    return blocks.max(2), (mask, x.shape)


def backward(dy, cache):
    mask, (rows, columns) = cache
    return np.where(mask, dy[:, :, None], np.float32(0)).reshape(rows, -1)[:, :columns]
