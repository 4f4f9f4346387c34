"""A learner's answer: Token embedding."""

import numpy as np


def embedding_forward(tokens, table, scale=1.0):
    """tokens (...) integers in [0, V), table (V, C). Returns y (..., C) and a cache."""
    y = scale * table[tokens]  # 1. (..., C)
    return y, (tokens, table.shape[0], scale)


def embedding_backward(dy, cache):
    """dy (..., C). Returns dtable (V, C); token ids have no gradient."""
    tokens, num_rows, scale = cache
    dtable = np.zeros((num_rows, dy.shape[-1]))
    for token, gradient in zip(tokens.ravel(), dy.reshape(-1, dy.shape[-1]), strict=True):
        dtable[token] += scale * gradient
    return dtable
