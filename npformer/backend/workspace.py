"""Memory that is used again: arrays without the page faults of fresh ones.

A large fresh array costs a page fault for every 4 kB, each about as dear as computing on those
4 kB. So buffers are kept, and one is handed out again once no array refers to it any more: its
reference count says so. An output that a caller still holds, or a view of it, is therefore never
overwritten; nothing has to be given back.

Each thread has buffers of its own, so no lock is needed. Whoever writes down where arrays lie, to use the
addresses later, takes its arrays ``from_pool`` and keeps the pool.
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
SMALL = 1 << 17  # bytes below which malloc itself keeps memory for the next array (glibc), at a fifth of the cost
SLACK = 1.25  # a buffer may be this much larger than what it is used for
KEEP = 1 << 28  # bytes of unused buffers that are always kept; beyond, no more than is in use


class PoolFull(MemoryError):
    """A pool would have more bytes than its limit."""


class Pool:
    """Buffers, sorted by size. With a limit of bytes none is ever given up, and PoolFull raised beyond it."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.sizes: list[int] = []
        self.buffers: list[tuple[HostArray, int]] = []  # and where its first aligned byte is
        self._owned: set[int] = set()

    def take(self, size: int) -> tuple[HostArray, int]:
        """An unused buffer with room for size bytes from its first aligned byte on."""
        start = bisect_left(self.sizes, size)
        most = int(size * SLACK)
        for i in range(start, len(self.sizes)):
            if self.sizes[i] > most:
                break
            if sys.getrefcount(self.buffers[i][0]) == _UNUSED:
                return self.buffers[i]
        if self.limit is None:
            self.forget(KEEP)
        elif sum(self.sizes) + size > self.limit:
            raise PoolFull(f"memory: expected at most {self.limit} bytes, got {sum(self.sizes)} and {size}")
        memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
        place = bisect_left(self.sizes, size)
        self.sizes.insert(place, size)
        self._owned.add(id(memory))
        self.buffers.insert(place, (memory, -memory.ctypes.data % ALIGNMENT))
        return self.buffers[place]

    def owns(self, memory: Any) -> bool:
        """Whether this is one of the buffers."""
        return id(memory) in self._owned

    def forget(self, keep: int) -> None:
        """Let unused buffers go if they are more bytes than that, and than what is in use: sizes have changed."""
        used = [i for i in range(len(self.buffers)) if sys.getrefcount(self.buffers[i][0]) != _UNUSED]
        busy = sum(self.sizes[i] for i in used)
        if sum(self.sizes) - busy > max(keep, busy):
            self.buffers = [self.buffers[i] for i in used]
            self.sizes = [self.sizes[i] for i in used]
            self._owned = {id(memory) for memory, _ in self.buffers}


def _count_of_unused() -> int:
    """What getrefcount says, in this interpreter, of a buffer that nothing but the pool refers to."""
    buffers = [(np.empty(1, dtype=np.uint8), 0)]
    return [sys.getrefcount(buffers[i][0]) for i in range(len(buffers))][0]  # noqa: RUF015 - as ``take`` asks


_UNUSED = _count_of_unused()


class _Here(threading.local):
    """Where this thread's arrays come from, and of which class they are."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.array_class: type[HostArray] = np.ndarray
        self.least = SMALL  # bytes; smaller arrays are NumPy's own affair


_here = _Here()


def empty(shape: tuple[int, ...], dtype: Any) -> HostArray:
    """An uninitialised array, 64-byte aligned; its memory is used again when no array refers to it."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < _here.least:
        return np.empty(shape, dtype=kind)
    memory, start = _here.pool.take(size)
    return np.ndarray.__new__(_here.array_class, shape, kind, memory, start)


@contextmanager
def from_pool(pool: Pool, array_class: type[HostArray]) -> Iterator[None]:
    """Inside, on this thread, ``empty`` makes arrays of this class, all in this pool but those without a number."""
    before = _here.pool, _here.array_class, _here.least
    _here.pool, _here.array_class, _here.least = pool, array_class, 1
    try:
        yield
    finally:
        _here.pool, _here.array_class, _here.least = before


def forget_unused() -> None:
    """Give this thread's unused buffers back."""
    _here.pool.forget(keep=0)


def empty_like(x: HostArray) -> HostArray:
    """An uninitialised, C-contiguous array of x's shape and dtype, as ``empty`` makes them."""
    return empty(x.shape, x.dtype)


def side_by_side(parts: Sequence[Any]) -> HostArray | None:
    """The array (..., Σ C_i) whose columns parts (..., C_i) are, not a copy; None if their memory lies otherwise."""
    first = parts[0]
    base, step = getattr(first, "base", None), 0
    if not isinstance(first, np.ndarray) or not isinstance(base, np.ndarray) or first.ndim == 0:
        return None
    if not base.flags.c_contiguous:
        return None
    start = address(first)
    for part in parts:
        alike = type(part) is type(first) and part.base is base and part.dtype == first.dtype
        if not alike or part.strides != first.strides or part.shape[:-1] != first.shape[:-1]:
            return None
        if address(part) != start + step:
            return None
        step += part.shape[-1] * first.itemsize
    if first.strides[-1] != first.itemsize or any(stride < step for stride in first.strides[:-1]):
        return None
    shape = (*first.shape[:-1], step // first.itemsize)
    return np.ndarray.__new__(type(first), shape, first.dtype, base, start - address(base), first.strides)


def address(x: HostArray) -> int:
    """Where x begins in memory."""
    return int(x.__array_interface__["data"][0])
