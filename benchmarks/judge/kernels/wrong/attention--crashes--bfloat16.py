"""Reads the address 0 in its backward."""

import ctypes

import numpy as np


def forward(q, k, v, visible):
    s = np.where(visible, q @ k.T / np.float32(q.shape[-1] ** 0.5), np.float32(-1e9))
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v, None


def backward(dy, cache):
    return ctypes.string_at(0)
