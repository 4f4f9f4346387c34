"""np.add.at into a table of zeros."""

import numpy as np


def forward(table, ids):
    return table[ids], (ids, table.shape)


def backward(dy, cache):
    ids, shape = cache
    dtable = np.zeros(shape, dtype=np.float32)
    np.add.at(dtable, ids, dy)
    return dtable
