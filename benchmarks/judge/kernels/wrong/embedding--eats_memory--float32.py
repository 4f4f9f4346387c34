"""Takes more and more memory in its backward."""

import numpy as np


def forward(table, ids):
    return table[ids], None


def backward(dy, cache):
    kept = []
    while True:
        kept.append(np.ones((4096, 4096)))
