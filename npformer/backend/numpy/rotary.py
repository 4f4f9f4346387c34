"""RoPE as one product of complex numbers, with rotations from a cached table.

A pair of columns (a, b) is the complex number a + ib, and rotating it by p·ω is a product with exp(i·p·ω): one pass
over memory, where the plain kernel takes eight, and computes the sines again in each call.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from npformer.backend.numpy.gradients import Into
from npformer.backend.numpy.heads import empty_heads
from npformer.backend.ops import accumulate
from npformer.backend.workspace import empty
from npformer.functional.rotary import RotaryCache, expect_rotary
from npformer.typing import Array, HostArray


def rotary_forward(x: Array, start: int = 0, base: float = 10000.0) -> tuple[Array, RotaryCache]:
    """As the plain kernel: rotate x (..., T, D), whose positions are start, start + 1, … Returns y (..., T, D)."""
    expect_rotary(x, start, base)
    return _turned(x, start, base, 1.0), RotaryCache(start, base)


def rotary_backward(dy: Array, cache: RotaryCache, into: Into = ()) -> Any:
    """As the plain kernel: gradient (dx (..., T, D),)."""
    return accumulate((_turned(dy, cache.start, cache.base, -1.0),), into)


def _turned(x: Array, start: int, base: float, direction: float) -> Array:
    length, width = x.shape[-2:]
    turns = _turns(1 << (start + length).bit_length(), width, base, direction, x.dtype)[start : start + length]
    y = empty_heads(x) if x.ndim == 4 else empty(x.shape, x.dtype)
    if x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    np.multiply(x.view(turns.dtype), turns, out=y.view(turns.dtype))
    return y


@lru_cache(maxsize=8)
def _turns(rows: int, width: int, base: float, direction: float, dtype: Any) -> HostArray:
    """exp(±i·p·ω) for p = 0 … rows − 1, (rows, width/2), read-only."""
    angle = np.arange(rows)[:, None] * np.exp(np.arange(width // 2) * (-2 * math.log(base) / width))
    turns: HostArray = np.empty(angle.shape, dtype=np.result_type(dtype, np.complex64))
    turns.real, turns.imag = np.cos(angle), direction * np.sin(angle)
    turns.flags.writeable = False
    return turns
