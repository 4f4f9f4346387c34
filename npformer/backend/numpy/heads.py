"""Memory for heads, laid out so that merging them again is no copy."""

from __future__ import annotations

import numpy as np

from npformer.backend.workspace import empty
from npformer.typing import Array


def empty_heads(like: Array) -> Array:
    """Room for heads of the shape of like (B, H, T, D), merged in memory: (B, T, H, D)."""
    B, H, T, D = like.shape
    return empty((B, T, H, D), like.dtype).transpose(0, 2, 1, 3)


def row_factors(inverse: Array, scale: float) -> Array:
    """inverse·scale (B, H, T, 1), laid out as heads are: NumPy multiplies these by it in one stretch, twice as fast."""
    factors: Array = np.multiply(inverse, scale, out=empty_heads(inverse))
    return factors


def empty_gradients(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """Room for dq, dk and dv; those of one product's heads are side by side as these were, so joining is no copy."""
    if q.base is not None and q.base is k.base and q.base is v.base and q.shape == k.shape == v.shape:
        dq, dk, dv = _side_by_side(q, 3)
    elif k.base is not None and k.base is v.base and k.shape == v.shape:
        dq = empty_heads(q)
        dk, dv = _side_by_side(k, 2)
    else:
        dq, dk, dv = empty_heads(q), empty_heads(k), empty_heads(v)
    return dq, dk, dv


def _side_by_side(like: Array, count: int) -> list[Array]:
    """Room for so many arrays of heads (B, H, T, D): columns of one (B, T, count·H·D)."""
    B, H, T, D = like.shape
    together = empty((B, T, count, H, D), like.dtype)
    return [together[:, :, i].transpose(0, 2, 1, 3) for i in range(count)]
