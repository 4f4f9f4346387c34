"""Rotary position embedding (RoPE): queries and keys are rotated by their position, so scores depend on distances.

Each pair of columns (2i, 2i+1) of a head is a point in the plane; at position pos it is rotated by pos·ω_i,

    y_2i = x_2i·cos(pos·ω_i) − x_{2i+1}·sin(pos·ω_i)          ω_i = base^(−2i/D)
    y_{2i+1} = x_2i·sin(pos·ω_i) + x_{2i+1}·cos(pos·ω_i)

Let R_pos rotate all pairs. A query at position t and a key at position j then have the score on the right,

    y = R_pos x      (R_t q)·(R_j k) = qᵀ R_tᵀ R_j k = qᵀ R_(j−t) k

which depends on their distance, not on their positions. Values are not rotated. A bias added to all keys is rotated
differently at each of them, so its gradient is not 0, as it is without a rotation (``attention.py``).

Backward. y = R_pos x, and a rotation's transpose is its inverse, the rotation back:

    dx = R_posᵀ dy = R_(−pos) dy

Source: Su et al. 2021, arXiv:2104.09864, section 3.2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from npformer.errors import ConfigError, ShapeError
from npformer.functional.arrays import device_of, namespace
from npformer.functional.operation import Operation
from npformer.typing import Array


class RotaryCache(NamedTuple):
    start: int
    base: float


def rotary_forward(x: Array, start: int = 0, base: float = 10000.0) -> tuple[Array, RotaryCache]:
    """Rotate x (..., T, D), whose tokens are at positions start, start + 1, … Returns y (..., T, D).

    Raises ShapeError unless D is even, ConfigError unless start >= 0 and base > 0.
    """
    expect_rotary(x, start, base)
    return _turned(x, start, base, 1.0), RotaryCache(start, base)


def rotary_backward(dy: Array, cache: RotaryCache) -> tuple[Array]:
    """Gradient (dx (..., T, D),) of rotary_forward."""
    return (_turned(dy, cache.start, cache.base, -1.0),)


def _turned(x: Array, start: int, base: float, direction: float) -> Array:
    xp, device = namespace(x), device_of(x)
    length, width = x.shape[-2:]
    dtype = xp.float32 if x.dtype == xp.float32 else xp.float64
    position = xp.arange(start, start + length, dtype=xp.float64, device=device)  # (T,)
    pair = xp.arange(width // 2, dtype=xp.float64, device=device)  # (D/2,)
    angle = position[:, None] * xp.exp(pair * (-2 * math.log(base) / width))  # (T, D/2)
    cos, sin = xp.astype(xp.cos(angle), dtype), xp.astype(direction * xp.sin(angle), dtype)
    points = xp.reshape(x, (*x.shape[:-1], width // 2, 2))
    a, b = points[..., 0], points[..., 1]  # (..., T, D/2)
    return xp.reshape(xp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1), x.shape)


def expect_rotary(x: Array, start: int, base: float) -> None:
    """Raise ShapeError or ConfigError for what rotary_forward cannot take."""
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(f"x: expected (..., T, D) with an even D, since columns turn in pairs, got {tuple(x.shape)}")
    if start < 0:
        raise ConfigError(f"start: expected an integer >= 0, got {start}")
    if not base > 0:
        raise ConfigError(f"base: expected a number > 0, got {base}")


ROTARY = Operation(rotary_forward, rotary_backward)
