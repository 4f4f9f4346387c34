"""The recording driver for CUDA graphs, by CuPy.

Graphs have their own stream, since the default stream cannot record. It waits for the caller's stream
before each piece of work, and the caller's stream waits for it after, so all work has one order. A copy from
pinned host memory is asynchronous. That memory must not change until the copy is done, so there are several
pinned buffers, each with an event that tells when it is free again.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from npformer.backend.cupy import expect_current
from npformer.engine.capture import Driver
from npformer.engine.staging import places
from npformer.typing import Array, HostArray

AHEAD = 4  # calls that may be queued before the host waits until the first one's inputs are copied


class CupyDriver(Driver):
    """See the module's docstring and ``capture.Driver``."""

    at_first_sight = True

    def __init__(self, name: str) -> None:
        import cupy

        self.cupy, self.name = cupy, name
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._pinned = cycle([_Pinned(cupy) for _ in range(AHEAD)])
        self._number = cupy.cuda.Device().id
        self.memory = id(cupy), self._number

    def pool(self) -> GraphPool:
        return GraphPool(self.cupy, self.memory)

    def bound(self, pool: GraphPool) -> None:
        memory = pool.memory
        memory.most = min(memory.given * 5 // 4, memory.most)

    def release(self, pool: GraphPool) -> None:
        self.wait()
        pool.free()

    def wait(self) -> None:
        self.cupy.cuda.Device().synchronize()

    def trim(self) -> None:
        self.wait()
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def stage(self, like: Sequence[HostArray]) -> CupyStage:
        expect_current(self.cupy, self._number)
        return CupyStage(self.cupy, like, self._pinned)

    @contextmanager
    def using(self, pool: GraphPool) -> Iterator[None]:
        expect_current(self.cupy, self._number)
        caller = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(caller.record(self._event()))
        try:
            with self.stream, self.cupy.cuda.using_allocator(pool.blocks.malloc):
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

    def blank(self, x: Array) -> Array:
        return self.cupy.empty(x.shape, dtype=x.dtype)

    def is_out_of_memory(self, error: Exception) -> bool:
        return _is_out_of_memory(error)

    def _event(self) -> Any:
        return self.cupy.cuda.Event(disable_timing=True)


class GraphPool:
    """CuPy's memory pool, made to free nothing while graphs may use it.

    When a limit is reached, or the device's memory is full, CuPy's pool frees the blocks that no array has, and tries
    again. Graphs use such blocks. So the pool has no limit of its own, and its memory comes from ``GraphMemory``.
    """

    def __init__(self, cupy: Any, device: Any) -> None:
        self.memory = GraphMemory(cupy, device)
        self.blocks = cupy.cuda.MemoryPool(self.memory)
        self.memory.limit = self.blocks.get_limit()
        self.blocks.set_limit(size=0)  # none

    def free(self) -> None:
        """Give back what no array has."""
        self.blocks.free_all_blocks()
        self.memory.has(self.blocks.total_bytes())


class GraphMemory:
    """At most ``most`` bytes of the device's memory. Of a MemoryError CuPy's pool knows nothing: it passes it on.

    ``limit``, which a user may have set (CUPY_GPU_MEMORY_LIMIT; 0: none), is one for all pools of a device: CuPy's own
    has what graphs leave of it.
    """

    def __init__(self, cupy: Any, device: Any) -> None:
        self._cupy, self._device = cupy, device
        self.given, self.most, self.limit = 0, math.inf, 0  # bytes
        _every.add(self)

    def __call__(self, size: int) -> Any:
        others = self._of_all() - self.given + self._cupy.get_default_memory_pool().total_bytes()
        most = min(self.most, (self.limit or math.inf) - others)
        if self.given + size > most:
            raise MemoryError(f"expected at most {most} bytes for graphs, got {self.given} and {size}")
        try:
            memory = self._cupy.cuda.Memory(size)
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            if not _is_out_of_memory(error):
                raise
            raise MemoryError(str(error)) from None
        self.has(self.given + size)
        return self._cupy.cuda.MemoryPointer(memory, 0)

    def has(self, given: int) -> None:
        """So many bytes are its pool's."""
        self.given = given
        if self.limit:
            self._cupy.get_default_memory_pool().set_limit(size=max(1, self.limit - self._of_all()))

    def _of_all(self) -> int:
        """The bytes of all graphs of the device."""
        return sum(memory.given for memory in _every if memory._device == self._device)


_every: WeakSet[GraphMemory] = WeakSet()


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "cudaErrorMemoryAllocation" in str(error)


class CupyStage:
    """Arrays next to each other in one block of device memory, filled by one copy."""

    def __init__(self, cupy: Any, like: Sequence[HostArray], pinned: Iterator[_Pinned]) -> None:
        self.places, size = places(like)
        self._block = cupy.empty((size,), dtype=np.uint8)
        self.arrays: tuple[Array, ...] = _within(self._block, self.places, like)
        self._pinned = pinned

    def fill(self, numbers: Sequence[HostArray]) -> None:
        copy = next(self._pinned)
        copy.free.synchronize()
        for array, x in zip(copy.arrays(self, self._block.nbytes), numbers, strict=True):
            array[...] = x
        self._block.data.copy_from_host_async(copy.pointer.ptr, self._block.nbytes)
        copy.free.record()


class _Pinned:
    """Pinned host memory, for whatever is copied next, and the event after which it may be written again."""

    def __init__(self, cupy: Any) -> None:
        self._cupy, self._size = cupy, 0
        self._of_stages: WeakKeyDictionary[CupyStage, tuple[HostArray, ...]] = WeakKeyDictionary()
        self.pointer: Any = None
        self.free = cupy.cuda.Event(disable_timing=True)
        self.free.record()

    def arrays(self, stage: CupyStage, size: int) -> tuple[HostArray, ...]:
        """Arrays like the stage's, in this memory, which grows to the size of the largest stage."""
        if size > self._size:
            self._of_stages.clear()
            self.pointer, self._size = self._cupy.cuda.alloc_pinned_memory(size), size
        if stage not in self._of_stages:
            memory = np.frombuffer(self.pointer, dtype=np.uint8, count=size)
            self._of_stages[stage] = _within(memory, stage.places, stage.arrays)
        return self._of_stages[stage]


def _within(block: Any, starts: Sequence[int], like: Sequence[HostArray]) -> tuple[Any, ...]:
    """Arrays like these, whose memory is a block's."""
    return tuple(
        block[start : start + x.nbytes].view(x.dtype).reshape(x.shape) for start, x in zip(starts, like, strict=True)
    )
