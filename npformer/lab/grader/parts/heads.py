"""Splitting the model width into heads, and merging them again: each is the other's backward."""

from __future__ import annotations

from npformer.typing import Array


def split_heads(x: Array, num_heads: int) -> Array:
    """x (B, T, C) as heads (B, H, T, D), C = H·D."""
    batch, length, width = x.shape
    return x.reshape(batch, length, num_heads, width // num_heads).transpose(0, 2, 1, 3)


def merge_heads(heads: Array) -> Array:
    """Heads (B, H, T, D) side by side as x (B, T, C)."""
    batch, num_heads, length, width = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(batch, length, num_heads * width)
