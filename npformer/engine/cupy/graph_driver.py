"""The recording driver for CUDA graphs, by CuPy.

Graphs have their own stream, since the default stream cannot record. It waits for the caller's stream
before each piece of work, and the caller's stream waits for it after, so all work has one order. A copy from
pinned host memory is asynchronous. That memory must not change until the copy is done, so there are several
pinned buffers, each with an event that tells when it is free again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Any

import numpy as np

from npformer.backend.cupy import expect_current
from npformer.engine.staging import places
from npformer.typing import Array, HostArray

AHEAD = 4  # calls that may be queued before the host waits until the first one's inputs are copied


class CupyDriver:
    """See the module's docstring and ``capture.Driver``."""

    at_first_sight = True

    def __init__(self, name: str) -> None:
        import cupy

        self.cupy, self.name = cupy, name
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._number = cupy.cuda.Device().id

    def pool(self) -> Any:
        return self.cupy.cuda.MemoryPool(self._memory)

    def _memory(self, size: int) -> Any:
        """Memory from the device. If it is full, CuPy's pool would free blocks that graphs use, and try again.

        Of MemoryError the pool knows nothing.
        """
        cuda = self.cupy.cuda
        try:
            return cuda.MemoryPointer(cuda.Memory(size), 0)
        except cuda.runtime.CUDARuntimeError as error:
            if not self.is_out_of_memory(error):
                raise
            raise MemoryError(str(error)) from None

    def bound(self, pool: Any) -> None:
        most = pool.total_bytes() * 5 // 4
        pool.set_limit(size=min(most, pool.get_limit() or most))  # a user may have set one: CUPY_GPU_MEMORY_LIMIT

    def release(self, pool: Any) -> None:
        self.wait()
        pool.free_all_blocks()

    def wait(self) -> None:
        self.cupy.cuda.Device().synchronize()

    def trim(self) -> None:
        self.wait()
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def stage(self, like: Sequence[HostArray]) -> CupyStage:
        expect_current(self.cupy, self._number)
        return CupyStage(self.cupy, like)

    @contextmanager
    def using(self, pool: Any) -> Iterator[None]:
        expect_current(self.cupy, self._number)
        caller = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(caller.record(self._event()))
        try:
            with self.stream, self.cupy.cuda.using_allocator(pool.malloc):
                yield
        finally:
            caller.wait_event(self.stream.record(self._event()))

    def record(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        was_enabled = gc.isenabled()
        gc.disable()  # objects that wait for the device when freed must not do so while recording
        try:
            self.stream.begin_capture()  # relaxed: the pool may grow if necessary
            try:
                outputs = work()
            except BaseException:
                with suppress(Exception):  # the failed record cannot be used, and ending it raises
                    self.stream.end_capture()
                raise
            return self.stream.end_capture(), outputs
        finally:
            if was_enabled:
                gc.enable()

    def launch(self, graph: Any) -> None:
        expect_current(self.cupy, self._number)
        graph.launch()

    def fresh(self, x: Array) -> Array:
        return x.copy()

    def is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, MemoryError) or "cudaErrorMemoryAllocation" in str(error)

    def _event(self) -> Any:
        return self.cupy.cuda.Event(disable_timing=True)


class CupyStage:
    """Arrays next to each other in one block of device memory, filled by one copy."""

    def __init__(self, cupy: Any, like: Sequence[HostArray]) -> None:
        starts, size = places(like)
        self._block = cupy.empty((size,), dtype=np.uint8)
        self.arrays: tuple[Array, ...] = _within(self._block, starts, like)
        self._copies = cycle([_Pinned(cupy, size, starts, like) for _ in range(AHEAD)])

    def fill(self, numbers: Sequence[HostArray]) -> None:
        copy = next(self._copies)
        copy.free.synchronize()
        for array, x in zip(copy.arrays, numbers, strict=True):
            array[...] = x
        self._block.data.copy_from_host_async(copy.pointer.ptr, self._block.nbytes)
        copy.free.record()


class _Pinned:
    """Pinned host memory, and the event after which it may be written again."""

    def __init__(self, cupy: Any, size: int, starts: Sequence[int], like: Sequence[HostArray]) -> None:
        self.pointer = cupy.cuda.alloc_pinned_memory(size)
        self.arrays = _within(np.frombuffer(self.pointer, dtype=np.uint8, count=size), starts, like)
        self.free = cupy.cuda.Event(disable_timing=True)
        self.free.record()


def _within(block: Any, starts: Sequence[int], like: Sequence[HostArray]) -> tuple[Any, ...]:
    """Arrays like these, whose memory is a block's."""
    return tuple(
        block[start : start + x.nbytes].view(x.dtype).reshape(x.shape) for start, x in zip(starts, like, strict=True)
    )
