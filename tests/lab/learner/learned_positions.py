"""A learner's answer: Learned positions."""

import numpy as np


def learned_positions_forward(x, table, offset=0):
    """x (B, T, C), table (P, C), offset + T <= P. Returns y (B, T, C) and a cache."""
    length = x.shape[1]
    y = x + table[offset : offset + length]  # 1. the same rows for each of the B sequences
    return y, (offset, table.shape[0])


def learned_positions_backward(dy, cache):
    """dy (B, T, C). Returns (dx (B, T, C), dtable (P, C)), in this order."""
    offset, num_rows = cache
    dtable = np.zeros((num_rows, dy.shape[2]))
    for sequence in dy:
        dtable[offset : offset + len(sequence)] += sequence
    return dy.copy(), dtable
