"""What recording asks of CUDA, by CuPy.

Streams keep an order each. The graphs' own stream (the default one cannot record) waits for the caller's
before each piece of work and the caller's for it after, so for everyone there is one order. A copy from
the host does not wait if the host's memory is pinned; that memory must stay as it is until the copy is
done, so there are several places for it, each with an event that says when it is free again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Any

import numpy as np

from npformer.backend.staging import places
from npformer.typing import Array, HostArray

AHEAD = 4  # so many calls may be asked for before the host waits for the first one's inputs to be copied


class CupyDriver:
    """See the module's docstring and ``graph.Driver``."""

    def __init__(self, name: str) -> None:
        import cupy

        self.cupy, self.name = cupy, name
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def pool(self) -> Any:
        return self.cupy.cuda.MemoryPool()

    def release(self, pool: Any) -> None:
        self.cupy.cuda.Device().synchronize()
        pool.free_all_blocks()

    def trim(self) -> None:
        self.cupy.cuda.Device().synchronize()
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def stage(self, like: Sequence[HostArray]) -> CupyStage:
        return CupyStage(self.cupy, like)

    @contextmanager
    def using(self, pool: Any) -> Iterator[None]:
        caller = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(caller.record(self._event()))
        try:
            with self.stream, self.cupy.cuda.using_allocator(pool.malloc):
                yield
        finally:
            caller.wait_event(self.stream.record(self._event()))

    def record(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        with uncollected():
            self.stream.begin_capture()  # relaxed: should the pool have to grow, it may
            try:
                outputs = work()
            except BaseException:
                with suppress(Exception):  # the record is of no use, and says so
                    self.stream.end_capture()
                raise
            return self.stream.end_capture(), outputs

    def launch(self, graph: Any) -> None:
        graph.launch()

    def fresh(self, x: Array) -> Array:
        return x.copy()

    def is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, MemoryError) or "cudaErrorMemoryAllocation" in str(error)

    def _event(self) -> Any:
        return self.cupy.cuda.Event(disable_timing=True)


class CupyStage:
    """Arrays side by side in one block of the device's memory, filled by one copy."""

    def __init__(self, cupy: Any, like: Sequence[HostArray]) -> None:
        starts, size = places(like)
        self._block = cupy.empty((size,), dtype=np.uint8)
        self.arrays: tuple[Array, ...] = tuple(
            self._block[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
            for start, x in zip(starts, like, strict=True)
        )
        self._starts = starts
        self._copies = cycle([_Pinned(cupy, size) for _ in range(AHEAD)])

    def fill(self, numbers: Sequence[HostArray]) -> None:
        copy = next(self._copies)
        copy.free.synchronize()
        write(copy.host, self._starts, numbers)
        self._block.data.copy_from_host_async(copy.pointer.ptr, copy.host.nbytes)
        copy.free.record()


class _Pinned:
    """Host memory that the device can copy from by itself, and the event after which it may be written again."""

    def __init__(self, cupy: Any, size: int) -> None:
        self.pointer = cupy.cuda.alloc_pinned_memory(size)
        self.host = np.frombuffer(self.pointer, dtype=np.uint8, count=size)
        self.free = cupy.cuda.Event(disable_timing=True)
        self.free.record()


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, no garbage is collected: what waits for the device when it goes must not do so while a stream records."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def write(block: HostArray, starts: Sequence[int], numbers: Sequence[HostArray]) -> None:
    """Put each of the arrays at its place in block, as bytes."""
    for start, x in zip(starts, numbers, strict=True):
        block[start : start + x.nbytes] = np.frombuffer(np.ascontiguousarray(x).data, dtype=np.uint8, count=x.nbytes)
