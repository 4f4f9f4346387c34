"""The slope as 1 / cosh², from one exponential."""

import numpy as np


def forward(x):
    return np.float32(5) * np.tanh(x / np.float32(5)), x


def backward(dy, x):
    e = np.exp(-2 * np.abs(x) / np.float32(5))
    return dy * 4 * e / (1 + e) ** 2
