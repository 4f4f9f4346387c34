"""Waits for a lock that nobody releases."""

import threading

import numpy as np

LOCK = threading.Lock()


def forward(x):
    top = x.max(1, keepdims=True)
    e = np.exp(x - top)
    return top[:, 0] + np.log(e.sum(1)), e / e.sum(1, keepdims=True)


def backward(dy, p):
    LOCK.acquire()
    return dy[:, None] * p
