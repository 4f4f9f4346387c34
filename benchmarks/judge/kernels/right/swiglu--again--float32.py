"""Keeps its inputs alone and computes the sigmoid again."""

import numpy as np


def sigmoid(a):
    return np.float32(0.5) * (1 + np.tanh(a / 2))


def forward(a, b):
    return a * sigmoid(a) * b, (a.copy(), b.copy())


def backward(dy, cache):
    a, b = cache
    s = sigmoid(a)
    silu = a * s
    return dy * b * (s + silu * (1 - s)), dy * silu
