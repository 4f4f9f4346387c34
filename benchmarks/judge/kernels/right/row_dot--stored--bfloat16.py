"""Computed in float32, stored in bfloat16."""

from _bfloat16 import bfloat16


def forward(a, b):
    return bfloat16((a * b).sum(1)), (a, b)


def backward(dy, cache):
    a, b = cache
    return bfloat16(dy[:, None] * b), bfloat16(dy[:, None] * a)
