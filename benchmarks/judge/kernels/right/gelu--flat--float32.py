"""A flat loop over blocks of 32 of the entries, into buffers, the last block masked."""

import numpy as np

SCALE, CUBIC, BLOCK = np.float32((2 / np.pi) ** 0.5), np.float32(0.044715), 32


def forward(x, out):
    source, target = x.reshape(-1), out[0].reshape(-1)
    for start in range(0, source.size, BLOCK):
        part = source[start : start + BLOCK]
        target[start : start + BLOCK] = part / 2 * (1 + np.tanh(SCALE * (part + CUBIC * part**3)))
    return x


def backward(dy, x, out):
    source, upstream, target = x.reshape(-1), np.ascontiguousarray(dy).reshape(-1), out[0].reshape(-1)
    for start in range(0, source.size, BLOCK):
        where = slice(start, start + BLOCK)
        part = source[where]
        t = np.tanh(SCALE * (part + CUBIC * part**3))
        slope = (1 + t) / 2 + part / 2 * (1 - t * t) * SCALE * (1 + 3 * CUBIC * part * part)
        target[where] = upstream[where] * slope
