"""A fake device that records graphs: host arrays behind a wrapper, so that every read by the host is noticed.

What is asked of it is done at once, or, while it records, not done but written down with the memory it
is about; a launch goes through what was written. Memory comes from pools: what an array had is handed
to the next one of its size, what was given back is garbage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from npformer.backend.cupy.graph_driver import write
from npformer.backend.staging import places
from tests.backend.cuda.device_array import DeviceArray, bare

Host = np.ndarray[Any, Any]
UNIT = 512  # bytes by which memory is handed out


class MachineFull(Exception):
    """The memory is full."""


class RecordingError(Exception):
    """Something that cannot be done while recording."""


class Pool:
    """Memory that is handed out again; ``total`` is all that it has."""

    def __init__(self, machine: Machine):
        self.machine, self.total = machine, 0
        self.free: dict[int, list[Host]] = {}

    def take(self, size: int) -> Memory:
        size = max(1, -(-size // UNIT)) * UNIT
        free = self.free.get(size)
        if free:
            return Memory(self, free.pop())
        self.machine.grow(self, size)
        return Memory(self, self.machine.guarded((size,), np.uint8))

    def release(self):
        for size, buffers in self.free.items():
            for buffer in buffers:
                buffer.fill(255)
                self.total -= size
        self.free = {}


class Record(list[Callable[[], None]]):
    """What was written down."""


class Memory:
    """A piece of a pool, given back when nobody holds it any more."""

    def __init__(self, pool: Pool, buffer: Host):
        self.pool, self.buffer = pool, buffer

    def __del__(self):
        self.pool.free.setdefault(self.buffer.nbytes, []).append(self.buffer)


class Stage:
    """Places that are filled at once: a copy waits for what was asked for before."""

    def __init__(self, machine: Machine, like: Sequence[Host]):
        starts, size = places(like)
        block = machine.empty((size,), np.uint8)
        self.arrays = tuple(
            DeviceArray(machine, block.memory, block.bare[at : at + x.nbytes].view(x.dtype).reshape(x.shape))
            for at, x in zip(starts, like, strict=True)
        )
        self._block, self._starts, self._machine = block, starts, machine

    def fill(self, numbers: Sequence[Host]):
        self._machine.expect_not_recording("a copy from the host")
        write(self._block.bare, self._starts, numbers)


class Machine:
    """Device and driver in one. ``room`` is how many bytes it has; ``records`` and ``launches`` count."""

    name = "a machine that records"

    def __init__(self, guarded: Callable[..., Host], room: int = 1 << 40):
        self.guarded, self.room = guarded, room
        self.recorded: Record | None = None
        self.records = self.launches = 0
        self.common = Pool(self)
        self.pools = [self.common]  # to the end: as with CuPy's, what is not given back is nobody's, and still taken
        self._in_use = self.common

    @property
    def used(self) -> int:
        """Bytes that all pools have."""
        return sum(pool.total for pool in self.pools)

    def grow(self, pool: Pool, size: int):
        self.expect_not_recording("asking the driver for memory")
        if self.used + size > self.room:
            raise MachineFull(f"no room for {size} bytes")
        pool.total += size

    def expect_not_recording(self, what: str):
        if self.recorded is not None:
            raise RecordingError(f"{what} while recording")

    def do(self, work: Callable[[], None]):
        """Do work, or write it down."""
        if self.recorded is None:
            with np.errstate(all="ignore"):
                work()
        else:
            self.recorded.append(work)

    def empty(self, shape: tuple[int, ...], dtype) -> DeviceArray:
        """An array that holds garbage, each time that this is done."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        memory = self._in_use.take(size)
        buffer = memory.buffer
        self.do(lambda: buffer.fill(255))
        return DeviceArray(self, memory, buffer[:size].view(kind).reshape(shape))

    # a device

    def array(self, host: Host, dtype: str) -> DeviceArray:
        self.expect_not_recording("a copy from the host")
        with self.using(self.common):
            x = self.empty(np.shape(host), dtype)
        x.bare[...] = host
        return x

    def host(self, x: DeviceArray) -> Host:
        self.expect_not_recording("a copy to the host")
        return x.bare.copy()

    def owns(self, x) -> bool:
        return isinstance(x, DeviceArray)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        x = self.empty(shape, dtype)
        x[...] = 0
        return x

    def synchronize(self):
        self.expect_not_recording("waiting")

    # a driver

    def pool(self) -> Pool:
        made = Pool(self)
        self.pools.append(made)
        return made

    def release(self, pool: Pool):
        self.synchronize()
        pool.release()

    def trim(self):
        self.synchronize()
        self.common.release()

    def stage(self, like: Sequence[Host]) -> Stage:
        return Stage(self, like)

    @contextmanager
    def using(self, pool: Pool) -> Iterator[None]:
        self._in_use, before = pool, self._in_use
        try:
            yield
        finally:
            self._in_use = before

    def record(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        self.recorded = Record()
        try:
            outputs = work()
            self.records += 1
            return self.recorded, outputs
        finally:
            self.recorded = None

    def launch(self, graph: Record):
        self.expect_not_recording("a launch")
        self.launches += 1
        for work in graph:
            self.do(work)

    def fresh(self, x: DeviceArray) -> DeviceArray:
        self.expect_not_recording("a copy for the caller")
        return x.copy()

    def is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, MachineFull)


class Runtime:
    """A GPU whose arrays are the machine's, on one whose arrays are the host's."""

    def __init__(self, machine: Machine, inner):
        self.machine, self.inner, self.precision = machine, inner, inner.precision

    def empty(self, shape: tuple[int, ...], dtype) -> DeviceArray:
        return self.machine.empty(shape, dtype)

    def contiguous(self, x: DeviceArray) -> DeviceArray:
        return x if x.flags.c_contiguous else x.copy()

    def launch(self, kernel: str, dtype, blocks: int, threads: int, *arguments):
        given = [bare(x) for x in arguments]
        assert not any(isinstance(x, np.ndarray) for x in arguments), f"{kernel}: an array of the host"
        self.machine.do(lambda: self.inner.launch(kernel, dtype, blocks, threads, *given))

    def product(self, a, b, out, *, add: bool = False, scale: float = 1.0):
        given = (a.bare, b.bare, out.bare)
        self.machine.do(lambda: self.inner.product(*given, add=add, scale=scale))
        return out
