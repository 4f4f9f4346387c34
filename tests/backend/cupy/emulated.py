"""The names of CuPy that npformer uses, without a GPU: streams are queues, and work runs as late as possible.

What is asked of a stream is done when somebody waits for it, and of other streams only as much as it waits for
itself; or (``hasty``) all streams but the default one work at once. Where an event is missing, numbers are missing in
one of the two. What is here is compared with CuPy itself, where that is
installed, by ``test_runtime.py``.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from npformer.backend.cuda.source import REAL, files, source
from tests.backend.cuda import fake_cublas, guarded, host_runtime, recording

Host = np.ndarray[Any, Any]
Work = Callable[[], None]


class Machine(recording.Machine):  # type: ignore[misc, name-defined]
    """Memory, and streams that have not done yet what they were asked for."""

    def __init__(self):
        super().__init__(guarded.guarded)
        self.streams: list[Any] = []
        self.current: Any = None
        self.hasty = False

    def do(self, work: Work):
        if self.recorded is None:
            self.current.ask(work)
        else:
            self.recorded.append(work)

    def expect_not_recording(self, what: str):
        super().expect_not_recording(what)
        if what == "reading an array's numbers":
            self.current.synchronize()


def emulated():
    """What ``import cupy`` finds; ``machine`` and ``cublas`` are what stands behind it."""
    machine = Machine()
    found = _classes(machine)
    machine.pools = []
    machine.common = machine._in_use = default = found.MemoryPool()
    machine.current = found.Stream(null=True)

    def get_current_stream(device_id: int = -1):
        return machine.current

    def get_allocator():
        return default.malloc

    @contextmanager
    def using_allocator(allocator=None) -> Iterator[None]:
        with machine.using(allocator.__self__):
            yield

    def get_default_memory_pool():
        return default

    def get_default_pinned_memory_pool():
        return found.PinnedMemoryPool()

    def alloc_pinned_memory(size: int):
        return found.PinnedMemoryPointer(size)

    def getDeviceProperties(device: int):  # noqa: N802
        return {"name": b"a machine without a GPU"}

    def empty(shape, dtype=float):
        return machine.empty((shape,) if isinstance(shape, int) else shape, dtype)

    def zeros(shape, dtype=float):
        return machine.zeros(shape, dtype)

    def array(obj, dtype=None):
        machine.expect_not_recording("a copy from the host")
        x, numbers = machine.empty(np.shape(obj), dtype), np.array(obj)
        machine.do(lambda target=x.bare: np.copyto(target, numbers, casting="unsafe"))
        return x

    def asnumpy(a) -> Host:
        machine.current.synchronize()
        return np.array(a.bare)

    def ascontiguousarray(a):
        return a if a.flags.c_contiguous else a.copy()

    cuda = SimpleNamespace(
        Device=found.Device, Event=found.Event, MemoryPool=found.MemoryPool, Stream=found.Stream,
        alloc_pinned_memory=alloc_pinned_memory, get_allocator=get_allocator, get_current_stream=get_current_stream,
        runtime=SimpleNamespace(getDeviceProperties=getDeviceProperties), using_allocator=using_allocator,
    )  # fmt: skip
    return SimpleNamespace(
        RawModule=found.RawModule, array=array, ascontiguousarray=ascontiguousarray, asnumpy=asnumpy, cuda=cuda,
        empty=empty, get_default_memory_pool=get_default_memory_pool,
        get_default_pinned_memory_pool=get_default_pinned_memory_pool, ndarray=recording.DeviceArray, uint8=np.uint8,
        zeros=zeros, machine=machine, classes=found, cublas=_Cublas(machine),
    )  # fmt: skip


def _classes(machine: Machine):
    """CuPy's classes, on a machine."""
    numbers = itertools.count(1)
    kernels = host_runtime.HostRuntime()

    class Stream:
        def __init__(self, null: bool = False, non_blocking: bool = False):
            assert null or non_blocking, "a stream that waits for the default one cannot be recorded beside it"
            self.ptr, self.is_default, self.asked, self.done = next(numbers), null, list[Work](), 0
            self._before: list[Any] = []
            machine.streams.append(self)

        def __enter__(self):
            self._before.append(machine.current)
            machine.current = self
            return self

        def __exit__(self, *args):
            machine.current = self._before.pop()

        def ask(self, work: Work):
            self.asked.append(work)
            if machine.hasty and not self.is_default:
                self.run_until(len(self.asked))

        def run_until(self, count: int):
            while self.done < count:
                self.done += 1
                with np.errstate(all="ignore"):
                    self.asked[self.done - 1]()

        def synchronize(self):
            machine.expect_not_recording("waiting")
            self.run_until(len(self.asked))

        def record(self, event=None):
            event.record(self)
            return event

        def wait_event(self, event):
            stream, count = event.place
            self.ask(lambda: stream.run_until(count))

        def begin_capture(self, mode=None):
            assert machine.current is self
            machine.recorded = recording.Record()

        def end_capture(self):
            graph, machine.recorded = Graph(machine.recorded), None
            return graph

    class Event:
        def __init__(self, block: bool = False, disable_timing: bool = False):
            self.place: tuple[Any, int] = (machine.current, 0)

        def record(self, stream=None):
            stream = stream or machine.current
            self.place = stream, len(stream.asked)

        def synchronize(self):
            stream, count = self.place
            stream.run_until(count)

    class Graph:
        def __init__(self, record):
            self._record = record

        def launch(self, stream=None):
            for work in self._record:
                machine.do(work)

    class MemoryPool(recording.Pool):  # type: ignore[misc, name-defined]
        def __init__(self, allocator=None):
            super().__init__(machine)
            machine.pools.append(self)

        def malloc(self, size: int):
            return self.take(size)

        def free_all_blocks(self, stream=None):
            assert all(each.done == len(each.asked) for each in machine.streams), "somebody may still use it"
            self.release()

        def total_bytes(self) -> int:
            return int(self.total)

    class PinnedMemoryPool:
        def free_all_blocks(self):
            pass

    class PinnedMemoryPointer(bytearray):
        @property
        def ptr(self) -> int:
            return ctypes.addressof(ctypes.c_char.from_buffer(self))

    class MemoryPointer:
        def __init__(self, array: Host):
            self._array, self.ptr = array, int(array.ctypes.data)

        def copy_from_host_async(self, mem: int, size: int, stream=None):
            machine.expect_not_recording("a copy from the host")
            machine.do(lambda to=self.ptr: ctypes.memmove(to, mem, size) and None)

    class Device:
        def __init__(self, device=None):
            self.id = 0

        def synchronize(self):
            for stream in machine.streams:
                stream.synchronize()

    class RawModule:
        def __init__(self, code: str, *, options: tuple[str, ...] = ()):
            self._kind = {source(file, dtype): (file, dtype) for file in files() for dtype in REAL}[code]

        def get_function(self, name: str):
            return RawKernel(name, *self._kind)

    class RawKernel:
        def __init__(self, name: str, file: str, dtype: str):
            self._name, self._dtype = f"{file}.{name}", dtype

        def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]):
            given = [x.bare if isinstance(x, recording.DeviceArray) else x for x in args]
            assert not any(isinstance(x, np.ndarray) for x in args), "an array of the host"
            machine.do(lambda: kernels.launch(self._name, self._dtype, grid[0], block[0], *given))

    return SimpleNamespace(**{name: kind for name, kind in locals().items() if isinstance(kind, type)})


class _Cublas:
    """The library, whose products wait for their turn on a stream."""

    def __init__(self, machine: Machine):
        self.library = fake_cublas.FakeCublas()
        for name in fake_cublas.DECLARED:
            setattr(self, name, _Function(machine, getattr(self.library, name), "Gemm" in name))


class _Function:
    """A function of C: its parameters are declared, and it returns whether all went well."""

    argtypes: Any = None
    restype: Any = None

    def __init__(self, machine: Machine, function, waits: bool):
        self._machine, self._function, self._waits = machine, function, waits

    def __call__(self, *arguments) -> int:
        if not self._waits:
            return int(self._function(*arguments))

        def work():
            assert self._function(*arguments) == 0

        self._machine.do(work)
        return 0
