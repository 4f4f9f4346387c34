"""Each row gets its part's gradient, divided by the part's length."""

import numpy as np


def forward(x, lengths):
    y = np.zeros((len(lengths), x.shape[1]), x.dtype)
    for part, (start, n) in enumerate(zip(np.cumsum(lengths) - lengths, lengths, strict=True)):
        if n:
            y[part] = x[start : start + n].sum(0) / np.float32(n)
    return y, lengths


def backward(dy, lengths):
    each = dy / np.maximum(lengths, 1).astype(np.float32)[:, None]
    return np.repeat(each, lengths, axis=0)
