"""CuPy's memory pool, by its own algorithm: ``SingleDeviceMemoryPool`` in ``cupy/cuda/memory.pyx``.

A pool asks its allocator for pieces of memory of just the size that is wanted, and never for larger ones. What is free
is cut: the smallest chunk that is large enough gives what is wanted, the rest stays free. Neighbours that are free
become one again. Chunks belong to the stream that was current. If the device's memory is full, or the pool's limit is
reached, pieces of which all is free are given back, and it is tried again: twice.
"""

import gc
from types import SimpleNamespace

import numpy as np

UNIT = 512  # bytes by which memory is handed out
FULL = 2  # cudaErrorMemoryAllocation


class CUDARuntimeError(RuntimeError):
    """An error of the driver."""

    def __init__(self, status):
        super().__init__("cudaErrorMemoryAllocation: out of memory")
        self.status = status


class OutOfMemoryError(MemoryError):
    """The device's memory is full, or the pool's limit is reached."""


class Chunk:
    """A part of a piece of memory."""

    def __init__(self, piece, start, size, stream):
        self.piece, self.start, self.size, self.stream = piece, start, size, stream
        self.before = self.behind = None

    def split(self, size):
        """The rest behind size bytes, or None."""
        if self.size == size:
            return None
        rest = Chunk(self.piece, self.start + size, self.size - size, self.stream)
        self.size, rest.behind, rest.before = size, self.behind, self
        if rest.behind is not None:
            rest.behind.before = rest
        self.behind = rest
        return rest

    def merge(self, rest):
        self.size, self.behind = self.size + rest.size, rest.behind
        if self.behind is not None:
            self.behind.before = self


class Taken:
    """A chunk that an array has, given back when nobody holds it any more."""

    def __init__(self, pool, chunk):
        self.pool, self.chunk = pool, chunk
        self.buffer = chunk.piece.buffer[chunk.start : chunk.start + chunk.size]

    def __del__(self):
        self.pool._give_back(self.chunk)


def pool_classes(machine):
    """Memory and MemoryPool of a machine."""

    class Memory:
        """A piece of the device's memory. ``given_back``: nobody may use it any more."""

        def __init__(self, size):
            if machine.used + size > machine.room:
                raise CUDARuntimeError(FULL)
            self.size, self.given_back = size, False
            self.buffer = machine.memory((size,), np.uint8)

    class MemoryPool:
        def __init__(self, allocator=None):
            self.total, self.limit = 0, machine.limit
            self._allocator = allocator or (lambda size: SimpleNamespace(mem=Memory(size)))
            self._free = {}  # stream: size: chunks, in the order in which they were given back
            machine.pools.append(self)

        def malloc(self, size):
            size = max(1, -(-size // UNIT)) * UNIT
            machine.asked += 1
            if machine.is_full(machine.asked):
                raise OutOfMemoryError(f"no room for {size} bytes")
            free, stream = self._free.setdefault(machine.current, {}), machine.current
            fits = min((each for each in free if each >= size), default=None)
            if fits is None:
                return Taken(self, Chunk(self._asked(size), 0, size, stream))
            chunk = next(iter(free[fits]))
            del free[fits][chunk]
            if not free[fits]:
                del free[fits]
            if (rest := chunk.split(size)) is not None:
                free.setdefault(rest.size, {})[rest] = None
            return Taken(self, chunk)

        def _give_back(self, chunk):
            if self._is_free(chunk.behind):
                self._take(chunk.behind)
                chunk.merge(chunk.behind)
            if self._is_free(chunk.before):
                self._take(chunk.before)
                chunk.before.merge(chunk)
                chunk = chunk.before
            self._free.setdefault(chunk.stream, {}).setdefault(chunk.size, {})[chunk] = None

        def _is_free(self, chunk):
            return chunk is not None and chunk in self._free.get(chunk.stream, {}).get(chunk.size, ())

        def _take(self, chunk):
            free = self._free[chunk.stream]
            free[chunk.size].pop(chunk, None)
            if not free[chunk.size]:
                del free[chunk.size]

        def _asked(self, size):
            for ahead in (lambda: None, gc.collect, None):
                if not self.limit or self.total + size <= self.limit:
                    break
                if ahead is None or size > self.limit:
                    raise OutOfMemoryError(f"no room for {size} bytes, limit set to {self.limit}")
                ahead()
                self._free_whole_pieces()
            for ahead in (lambda: None, gc.collect, None):
                try:
                    piece = self._allocator(size).mem
                except CUDARuntimeError:
                    if ahead is None:
                        raise OutOfMemoryError(f"no room for {size} bytes") from None
                    ahead()
                    self._free_whole_pieces()
                    continue
                self.total += size
                machine.most_used = max(machine.most_used, machine.used)
                if machine.recorded is not None:
                    machine.graph_memory.add(piece)
                return piece

        def free_all_blocks(self, stream=None):
            assert all(each.done == each.asked for each in machine.streams), "somebody may still use it"
            self._free_whole_pieces()

        def _free_whole_pieces(self):
            for free in self._free.values():
                for size in list(free):
                    whole = [chunk for chunk in free[size] if chunk.before is None and chunk.behind is None]
                    for chunk in whole:
                        chunk.piece.given_back = True
                        machine.soil(chunk.piece.buffer)
                        self.total -= size
                        self._take(chunk)

        def set_limit(self, size=None, fraction=None):
            self.limit = size

        def get_limit(self):
            return self.limit

        def total_bytes(self):
            return self.total

        def used_bytes(self):
            return self.total - sum(size * len(chunks) for free in self._free.values() for size, chunks in free.items())

    return Memory, MemoryPool
