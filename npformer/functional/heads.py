"""Splitting the model width into heads, and merging them again: both only reorder numbers.

    split: (B, T, C) -> (B, T, H, D) -> (B, H, T, D)      C = H·D, head h owns columns hD … hD+D−1
    merge: the inverse

Each is the inverse of the other, and since they only move numbers, each is also the other's
backward: dx = merge(dheads), dheads = split(dx). Reshaping without moving the head axis back would
mix tokens with heads and still give the right shape.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
"""

from __future__ import annotations

from npformer.errors import ShapeError
from npformer.functional.arrays import namespace
from npformer.typing import Array


def split_heads(x: Array, num_heads: int) -> Array:
    """x (B, T, C) as heads (B, H, T, D). Raises ShapeError unless C is divisible by H."""
    batch, length, width = x.shape
    if width % num_heads:
        raise ShapeError(f"x: expected (B, T, C) with C divisible by H={num_heads}, got {tuple(x.shape)}")
    xp = namespace(x)
    return xp.permute_dims(xp.reshape(x, (batch, length, num_heads, width // num_heads)), (0, 2, 1, 3))


def merge_heads(heads: Array) -> Array:
    """Heads (B, H, T, D) side by side as x (B, T, C)."""
    batch, num_heads, length, width = heads.shape
    xp = namespace(heads)
    return xp.reshape(xp.permute_dims(heads, (0, 2, 1, 3)), (batch, length, num_heads * width))
