"""Rows of equal ids are sorted together and summed by reduceat; into buffers."""

import numpy as np


def forward(table, ids, out):
    np.take(table, ids, axis=0, out=out[0])
    return ids


def backward(dy, ids, out):
    order = np.argsort(ids, kind="stable")
    found, starts = np.unique(ids[order], return_index=True)
    out[0][...] = 0
    out[0][found] = np.add.reduceat(dy[order], starts, axis=0)
