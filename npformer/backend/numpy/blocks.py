"""Blocks of rows that fit into the CPU cache, and sums over rows: helpers of all kernels in this folder.

A chain of ufuncs over an array that is larger than the cache loads it from memory once for each
ufunc; over blocks of rows it is loaded once. Sums over tokens are products with a vector of ones,
which take BLAS 0.05 ns per number, where ``np.sum`` takes 0.1 to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from npformer.backend.workspace import read_only
from npformer.typing import Array, HostArray

BATCH = 1 << 17  # numbers in a block of sequences: 512 kB of float32
BLOCK = 1 << 16  # numbers in a block: 256 kB of float32, so that three or four share a second-level cache of 1 MB


def row_blocks(rows: int, width: int, numbers: int = BLOCK) -> Iterator[slice]:
    """Slices that cover all rows, each of about ``numbers`` numbers; one slice if there are few rows."""
    size = max(1, numbers // max(1, width))
    if rows <= size + size // 2:
        return iter((slice(0, rows),))
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def blocks_of(x: Array) -> Iterator[slice]:
    """Slices of the batch of x (B, …), each of about BATCH numbers."""
    return row_blocks(x.shape[0], x[:1].size, BATCH)


def as_matrix(x: Array) -> Array:
    """x (..., C) as (N, C); a view wherever NumPy can make one."""
    if x.ndim == 2:
        return x
    width = x.shape[-1] if x.ndim else 1
    return x.reshape(x.size // width if width else int(np.prod(x.shape[:-1])), width)


def filled(size: int, value: float, dtype: Any) -> HostArray:
    """A read-only vector (size,) of one value: the first elements of a cached, longer one."""
    return _filled(1 << max(0, size - 1).bit_length(), value, dtype)[:size]


@lru_cache(maxsize=64)
def _filled(size: int, value: float, dtype: Any) -> HostArray:
    """A vector of one value whose length is a power of two, so that few of them serve batches of all sizes."""
    return read_only(np.full(size, value, dtype=dtype))


def column_sums(x: Array) -> Array:
    """Σ_n x_nj of x (N, C), as (C,)."""
    return filled(x.shape[0], 1.0, x.dtype).dot(x)
