"""Position encodings from cached tables: sines, cosines, turns and buckets depend only on positions and options.

The plain kernels compute them in each call, in float64: 20 ns per number. The learned table's gradient is added
directly to the used rows, without a full table of zeros.

RoPE is one product of complex numbers: a pair of columns (a, b) is the complex number a + ib, and rotating it by p·ω is
a product with exp(i·p·ω): one pass over memory, where the plain kernel takes eight.

The gradients of relative positions are summed per bucket with ``np.bincount``. The plain kernel's gradient multiplies
by a one-hot matrix, T·S·K operations per head. Adding each number to its bucket takes T·S, and sums in float64.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from npformer import functional as F  # noqa: N812
from npformer.backend.numpy.gradients import Into, expect_gradients
from npformer.backend.numpy.heads import empty_heads
from npformer.backend.workspace import empty, read_only
from npformer.functional.positions import (
    LearnedPositionsCache,
    SinusoidalPositionsCache,
    expect_positions,
    sinusoidal_table,
)
from npformer.functional.rotary import RotaryCache, expect_rotary
from npformer.typing import Array, HostArray

Buckets: TypeAlias = npt.NDArray[np.intp]


def sinusoidal_positions_forward(x: Array, offset: int = 0) -> tuple[Array, SinusoidalPositionsCache]:
    """As the plain kernel: add PE(offset), PE(offset + 1), … to x (..., T, C). Returns y (..., T, C)."""
    length, width = x.shape[-2:]
    table = _table(1 << (offset + length - 1).bit_length(), width, x.dtype)
    return np.add(x, table[offset : offset + length], out=empty(x.shape, x.dtype)), SinusoidalPositionsCache()


@lru_cache(maxsize=8)
def _table(rows: int, width: int, dtype: Any) -> HostArray:
    """PE(0 … rows − 1), (rows, width), read-only."""
    return read_only(sinusoidal_table(rows, width, 0, np.empty(0)).astype(dtype))


def sinusoidal_positions_backward(dy: Array, cache: SinusoidalPositionsCache) -> tuple[Array]:
    """As the plain kernel: the gradient passes through unchanged."""
    return (dy,)


def learned_positions_forward(x: Array, table: Array, offset: int = 0) -> tuple[Array, LearnedPositionsCache]:
    """As the plain kernel: add rows offset … offset + T − 1 of table (P, C) to x (..., T, C). Returns y (..., T, C)."""
    expect_positions(x, table, offset)
    rows = table[offset : offset + x.shape[-2]]
    return np.add(x, rows, out=empty(x.shape, x.dtype)), LearnedPositionsCache(offset, table.shape[0])


def learned_positions_backward(dy: Array, cache: LearnedPositionsCache, into: Into = ()) -> Any:
    """As the plain kernel: gradients (dx (..., T, C), dtable (P, C))."""
    expect_of_positions(dy, cache, into)
    if not into:
        return F.learned_positions_backward(dy, cache)
    if into[0] is not None:
        used = into[0][cache.offset : cache.offset + dy.shape[-2]]
        used += dy.reshape(-1, *dy.shape[-2:]).sum(axis=0)  # (T, C)
    return dy


def expect_of_positions(dy: Array, cache: LearnedPositionsCache, into: Into) -> None:
    """Raise ShapeError unless dy (..., T, C) and the table's place fit the positions that were added."""
    length = min(dy.shape[-2], cache.num_rows - cache.offset)
    expect_gradients(dy, (*dy.shape[:-2], length, dy.shape[-1]), into, (cache.num_rows, dy.shape[-1]))


def rotary_forward(x: Array, start: int = 0, base: float = 10000.0) -> tuple[Array, RotaryCache]:
    """As the plain kernel: rotate x (..., T, D), whose positions are start, start + 1, … Returns y (..., T, D)."""
    expect_rotary(x, start, base)
    return _turned(x, start, base, 1.0), RotaryCache(start, base)


def rotary_backward(dy: Array, cache: RotaryCache) -> tuple[Array]:
    """As the plain kernel: gradient (dx (..., T, D),)."""
    return (_turned(dy, cache.start, cache.base, -1.0),)


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
    return read_only(turns)


class RelativeBiasCache(NamedTuple):
    bucket: Buckets  # (T·S,)
    num_buckets: int  # K


def relative_bias_forward(
    table: Array, queries: int, keys: int, query_offset: int = 0, causal: bool = False, max_distance: int = 128
) -> tuple[Array, RelativeBiasCache]:
    """As the plain kernel: the bias (H, T, S) of T queries, at positions query_offset on, and S keys."""
    bucket = _bucket(table.shape, queries, keys, query_offset, causal, max_distance)
    bias = np.ascontiguousarray(table.T).take(bucket, axis=1)  # (H, T·S)
    return bias.reshape(table.shape[1], queries, keys), RelativeBiasCache(bucket, table.shape[0])


def relative_bias_backward(dbias: Array, cache: RelativeBiasCache) -> tuple[Array]:
    """As the plain kernel: gradient (dtable (num_buckets, H),), given dbias (H, T, S)."""
    dtable = np.empty((cache.num_buckets, dbias.shape[0]), dtype=dbias.dtype)
    for head, dbias_head in enumerate(dbias):
        dtable[:, head] = np.bincount(cache.bucket, dbias_head.reshape(-1), cache.num_buckets)
    return (dtable,)


@lru_cache(maxsize=32)
def _bucket(
    shape: tuple[int, ...], queries: int, keys: int, query_offset: int, causal: bool, max_distance: int
) -> Buckets:
    """The table entry that each pair of positions uses, (T·S,), read-only. Raises as the plain kernel does."""
    _, cache = F.relative_bias_forward(np.zeros(shape), queries, keys, query_offset, causal, max_distance)
    return read_only(np.asarray(cache.bucket, dtype=np.intp))
