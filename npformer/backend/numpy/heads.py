"""Memory for heads, laid out so that merging them needs no copy."""

from __future__ import annotations

import numpy as np

from npformer.backend.workspace import empty
from npformer.typing import Array


def empty_heads(like: Array) -> Array:
    """Empty heads of like's shape (B, H, T, D), in the memory order (B, T, H, D)."""
    B, H, T, D = like.shape
    return empty((B, T, H, D), like.dtype).transpose(0, 2, 1, 3)


def row_factors(inverse: Array, scale: float) -> Array:
    """inverse·scale (B, H, T, 1) in the memory order of heads: multiplying heads by it is then twice as fast."""
    return np.multiply(inverse, scale, out=empty_heads(inverse))


def empty_gradients(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Empty dq, dk and dv. If q, k and v are columns of one product, so are these, and joining them needs no copy."""
    if q.base is not None and q.base is k.base and q.base is v.base and q.shape == k.shape == v.shape:
        dq, dk, dv = _side_by_side(q, 3)
    elif k.base is not None and k.base is v.base and k.shape == v.shape:
        dq = empty_heads(q)
        dk, dv = _side_by_side(k, 2)
    else:
        dq, dk, dv = empty_heads(q), empty_heads(k), empty_heads(v)
    return dq, dk, dv


def _side_by_side(like: Array, count: int) -> list[Array]:
    """count empty arrays of heads (B, H, T, D): columns of one array (B, T, count·H·D)."""
    B, H, T, D = like.shape
    together = empty((B, T, count, H, D), like.dtype)
    return [together[:, :, i].transpose(0, 2, 1, 3) for i in range(count)]
