"""The sum over rows in two halves, each by einsum, then added."""

import numpy as np


def forward(x, w, b):
    return np.einsum("ni,io->no", x, w) + b, (x, w)


def backward(dy, cache):
    x, w = cache
    half = len(x) // 2
    dw = np.einsum("ni,no->io", x[:half], dy[:half]) + np.einsum("ni,no->io", x[half:], dy[half:])
    return np.einsum("no,io->ni", dy, w), dw, dy[:half].sum(0) + dy[half:].sum(0)
