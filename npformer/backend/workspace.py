"""Reused memory: arrays without the page faults of newly allocated ones.

A large new array causes a page fault for every 4 kB, which takes about as long as computing on those
4 kB. So buffers are kept, and a buffer is reused once no array refers to it any more, as its
reference count shows. An output that a caller still holds, or a view of it, is therefore never
overwritten, and nothing has to be freed explicitly.

Each thread has its own buffers, so no lock is needed. A recording, which stores the addresses of arrays,
takes its arrays ``from_pool`` and keeps the pool.
"""

from __future__ import annotations

import math
import sys
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from npformer.typing import HostArray

ALIGNMENT = 64  # bytes: a cache line, and an AVX-512 register
SMALL = 1 << 17  # bytes; below this, glibc's malloc itself reuses memory, in a fifth of the time
SLACK = 2  # a buffer may be this many times larger than the array in it
KEEP = 1 << 22  # bytes that a pool may always have
ROOM = 1.25  # a larger pool has at most this many times its peak, the most bytes in use at the same time
FORGETTING = 0.98  # the peak decays by this factor with each new buffer, so that a single peak is not kept for ever


class PoolFull(MemoryError):
    """A pool would exceed its limit of bytes."""


class PooledBuffer:
    """Memory of a pool."""

    __slots__ = ("memory", "size", "start", "used")

    def __init__(self, size: int) -> None:
        self.memory: HostArray = np.empty(size + ALIGNMENT, dtype=np.uint8)
        self.start: int = -self.memory.ctypes.data % ALIGNMENT  # its first aligned byte
        self.size = size  # from there on
        self.used = 0  # the count of takes when it was taken last


class Pool:
    """Buffers, sorted by size.

    Without a limit a pool has at most max(KEEP, ROOM·peak) bytes, or all bytes in use if that is more: before a new
    buffer is made, the least recently used free ones are dropped. With a limit in bytes no buffer is ever dropped, and
    exceeding the limit raises PoolFull.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.sizes: list[int] = []
        self.buffers: list[PooledBuffer] = []
        self._owned: set[int] = set()
        self._takes = 0
        self._peak = 0.0

    def take(self, size: int) -> tuple[HostArray, int]:
        """An unused buffer with room for size bytes, and its first aligned byte."""
        self._takes += 1
        most = size * SLACK
        for i in range(bisect_left(self.sizes, size), len(self.sizes)):
            if self.sizes[i] > most:
                break
            if sys.getrefcount(self.buffers[i].memory) == _UNUSED:
                self.buffers[i].used = self._takes
                return self.buffers[i].memory, self.buffers[i].start
        self._make_room(size)
        buffer = PooledBuffer(size)
        buffer.used = self._takes
        place = bisect_left(self.sizes, size)
        self.sizes.insert(place, size)
        self.buffers.insert(place, buffer)
        self._owned.add(id(buffer.memory))
        return buffer.memory, buffer.start

    def owns(self, memory: Any) -> bool:
        """Whether this is one of the buffers."""
        return id(memory) in self._owned

    def _make_room(self, size: int) -> None:
        """Drop unused buffers so that a new one of this size is within the bounds."""
        if self.limit is not None:
            if sum(self.sizes) + size > self.limit:
                raise PoolFull(f"memory: expected at most {self.limit} bytes, got {sum(self.sizes)} and {size}")
            return
        in_use = sum(self.sizes) - sum(buffer.size for buffer in self._unused())
        self._peak = max(self._peak * FORGETTING, in_use + size)
        self.shrink(max(KEEP, int(ROOM * self._peak)) - size)

    def shrink(self, most: int) -> None:
        """Free unused buffers, the least recently used first, until at most this many bytes are left."""
        excess, going = sum(self.sizes) - most, set()
        for buffer in sorted(self._unused(), key=lambda buffer: buffer.used) if excess > 0 else ():
            if excess <= 0:
                break
            going.add(id(buffer))
            excess -= buffer.size
        if going:
            self.buffers = [buffer for buffer in self.buffers if id(buffer) not in going]
            self.sizes = [buffer.size for buffer in self.buffers]
            self._owned = {id(buffer.memory) for buffer in self.buffers}

    def _unused(self) -> list[PooledBuffer]:
        return [self.buffers[i] for i in range(len(self.buffers)) if sys.getrefcount(self.buffers[i].memory) == _UNUSED]


def _count_of_unused() -> int:
    """The getrefcount, in this interpreter, of a buffer to which only the pool refers."""
    buffers = [PooledBuffer(1)]
    return [sys.getrefcount(buffers[i].memory) for i in range(len(buffers))][0]  # noqa: RUF015 - as ``take`` asks


_UNUSED = _count_of_unused()


class _ThisThread(threading.local):
    """The pool and the class of this thread's arrays."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.array_class: type[HostArray] = np.ndarray
        self.least = SMALL  # bytes; smaller arrays are left to NumPy


_here = _ThisThread()


def empty(shape: tuple[int, ...], dtype: Any) -> HostArray:
    """An uninitialised array, 64-byte aligned. Its memory is reused once no array refers to it."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < _here.least:
        return np.empty(shape, dtype=kind)
    memory, start = _here.pool.take(size)
    return np.ndarray.__new__(_here.array_class, shape, kind, memory, start)


@contextmanager
def from_pool(pool: Pool, array_class: type[HostArray]) -> Iterator[None]:
    """Inside, on this thread, ``empty`` makes arrays of this class, in this pool unless they have no elements."""
    before = _here.pool, _here.array_class, _here.least
    _here.pool, _here.array_class, _here.least = pool, array_class, 1
    try:
        yield
    finally:
        _here.pool, _here.array_class, _here.least = before


def read_only(x: HostArray) -> HostArray:
    """x, which nobody can write to by this name: one that is kept for later calls."""
    x.flags.writeable = False
    return x


def forget_unused() -> None:
    """Free this thread's unused buffers."""
    _here.pool.shrink(0)


def kept_bytes() -> int:
    """The bytes of this thread's buffers, used and unused."""
    return sum(_here.pool.sizes)


def empty_like(x: HostArray) -> HostArray:
    """An uninitialised, C-contiguous array of x's shape and dtype, as ``empty`` makes them."""
    return empty(x.shape, x.dtype)


def side_by_side(parts: Sequence[Any]) -> Any:
    """The array (..., Σ C_i) of which parts (..., C_i) are adjacent columns, as a view; None if they are not."""
    first, size = parts[0], 0  # bytes of a row
    base: Any = getattr(first, "base", None)
    if not hasattr(base, "flags") or 0 in (first.ndim, first.size) or not base.flags.c_contiguous:
        return None
    begin = address(first)
    for part in parts:
        alike = type(part) is type(first) and part.base is base and part.dtype == first.dtype
        if not alike or part.strides != first.strides or part.shape[:-1] != first.shape[:-1]:
            return None
        if address(part) != begin + size:
            return None
        size += part.shape[-1] * first.itemsize
    if first.strides[-1] != first.itemsize or any(stride < size for stride in first.strides[:-1]):
        return None
    offset, width = begin - address(base), size // first.itemsize
    if isinstance(first, np.ndarray):
        return np.ndarray.__new__(type(first), (*first.shape[:-1], width), first.dtype, base, offset, first.strides)
    if base.dtype != first.dtype or base.size % math.prod(first.shape[:-1]):
        return None
    rows, start = base.reshape((*first.shape[:-1], -1)), offset // first.itemsize
    end = start + width
    return rows[..., start:end] if rows.strides == first.strides and end <= rows.shape[-1] else None


def address(x: Any) -> int:
    """The address of x's first element; a device's arrays tell it as CuPy's do."""
    return int(x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data.ptr)
