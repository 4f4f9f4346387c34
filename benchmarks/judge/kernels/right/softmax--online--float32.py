"""Maximum and sum in one pass over blocks of 8; the last block is shorter."""

import numpy as np

BLOCK = 8


def forward(x):
    largest, total = np.full((len(x), 1), -np.inf, x.dtype), np.zeros((len(x), 1), x.dtype)
    for start in range(0, x.shape[1], BLOCK):
        part = x[:, start : start + BLOCK]
        higher = np.maximum(largest, part.max(1, keepdims=True))
        total = total * np.exp(largest - higher) + np.exp(part - higher).sum(1, keepdims=True)
        largest = higher
    y = np.exp(x - largest) / total
    return y, y


def backward(dy, y):
    dot = np.zeros_like(y[:, :1])
    for start in range(0, y.shape[1], BLOCK):
        dot = dot + (dy[:, start : start + BLOCK] * y[:, start : start + BLOCK]).sum(1, keepdims=True)
    return y * (dy - dot)
