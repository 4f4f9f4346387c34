"""Gradients of rows are added one by one."""

import numpy as np


def forward(table, other, words, places):
    return table[words] + other[places], (words, places, len(table), len(other))


def backward(dy, cache):
    words, places, n, m = cache
    dtable, dother = np.zeros((n, dy.shape[1]), dy.dtype), np.zeros((m, dy.shape[1]), dy.dtype)
    np.add.at(dtable, words, dy)
    np.add.at(dother, places, dy)
    return dtable, dother
