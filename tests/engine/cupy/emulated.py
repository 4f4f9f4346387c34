"""The names of CuPy that npformer uses, without a GPU: streams are queues, and work may run as late as possible.

What is asked of a stream is done at once, or (``works_at_once``) when somebody waits for it, and of other streams only
as much as it waits for itself. Where an event is missing, numbers are missing: with streams that all wait, or with
those that do but for the default one. While a stream records, what it is asked for is not done but written down with
the memory it is about; a launch goes through what was written. Memory comes from pools (``emulated_pool.py``): what an
array had is handed to the next one, what was given back is garbage. What is here is compared with CuPy itself, where
that is installed, by ``test_names.py``.
"""

import ctypes
import itertools
import math
import sys
from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from npformer.engine.cuda.source import REAL, files, source
from npformer.engine.cupy import blas, cupy_runtime
from npformer.functional import arrays
from tests.engine.cuda import fake_cublas, host_runtime
from tests.engine.cuda.device_array import NAMESPACE, DeviceArray, copying
from tests.engine.cupy.emulated_pool import CUDARuntimeError, pool_classes


class RecordingError(Exception):
    """Something that cannot be done while recording."""


class Machine:
    """Memory and streams. ``room`` is how many bytes it has; ``records`` counts graphs that were launched."""

    def __init__(self):
        self.room = 1 << 40
        self.limit = 0  # bytes of a pool that is made: what a user asks of CuPy's, CUPY_GPU_MEMORY_LIMIT; 0: any
        self.asked, self.is_full = 0, lambda asked: False  # for memory: so often; whether it is refused then
        self.recorded = None  # a list of work while a stream records
        self.graph_memory = set()  # pieces of memory that it is about
        self.records = self.launches = 0
        self.streams = []
        self.pools = []  # to the end: as with CuPy's, what is not given back is nobody's, and still taken
        self.most_used = 0  # bytes that all pools had at most
        self.current = self.in_use = None  # stream and pool
        self.device = 0  # the number of the current one: there are others, on which nothing can be done
        self.memory, self.kernels = host_runtime.guarded, host_runtime.HostRuntime()
        self.works_at_once = lambda stream: True

    @property
    def used(self):
        """Bytes that all pools have."""
        return sum(pool.total for pool in self.pools)

    def expect_not_recording(self, what):
        if self.recorded is not None:
            raise RecordingError(f"{what} while recording")

    def do(self, work):
        """Ask the current stream for work, or write it down."""
        if self.recorded is None:
            self.current.ask(work)
        else:
            self.recorded.append(work)

    def read(self, x):
        """The numbers of the host's array behind a DeviceArray."""
        self.expect_not_recording("reading an array's numbers")
        self.current.synchronize()
        return x

    def soil(self, buffer):
        self.do(lambda: buffer.fill(host_runtime.GARBAGE))

    def empty(self, shape, dtype):
        """An array that holds garbage, each time that this is done."""
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        memory = self.in_use.malloc(size)
        if self.recorded is not None:
            self.graph_memory.add(memory.chunk.piece)
        self.soil(memory.buffer)
        return DeviceArray(self, memory, memory.buffer[:size].view(kind).reshape(shape))

    def array(self, obj, dtype=None):
        """A copy of the host's numbers."""
        self.expect_not_recording("a copy from the host")
        numbers = np.array(obj, dtype)
        x = self.empty(numbers.shape, numbers.dtype)
        self.do(copying(x.bare, lambda: numbers))
        return x


def installed(monkeypatch):
    """emulated(), in place of CuPy."""
    found = emulated()
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setitem(sys.modules, "cupy.cuda", found.cuda)
    for module in (blas, cupy_runtime):
        monkeypatch.setattr(module, "loaded_library", lambda: found.cublas)
    monkeypatch.setattr(cupy_runtime, "WORKSPACE", 1 << 16)  # in which nobody computes, and which every test would fill
    monkeypatch.setitem(arrays._namespace_by_type, DeviceArray, NAMESPACE)  # else CuPy is looked for
    return found


def uncomputed(monkeypatch):
    """installed(), on which nothing is computed: kernels are counted, and memory, of models of any size."""
    found = installed(monkeypatch)
    machine, do = found.machine, found.machine.do
    machine.memory, machine.soil = np.empty, lambda buffer: None  # memory that nobody fills
    machine.do = lambda work: machine.recorded is not None and do(work)
    return found


def emulated():
    """What ``import cupy`` finds; ``machine`` and ``cublas`` are what stands behind it."""
    machine = Machine()
    found = _classes(machine)
    machine.pointer = found.MemoryPointer
    machine.in_use = default = found.MemoryPool()
    machine.current = found.Stream(null=True)

    @contextmanager
    def using_allocator(allocator=None):
        machine.in_use, before = allocator.__self__, machine.in_use
        try:
            yield
        finally:
            machine.in_use = before

    def empty(shape, dtype=float):
        return machine.empty((shape,) if isinstance(shape, int) else shape, dtype)

    def zeros(shape, dtype=float):
        x = empty(shape, dtype)
        machine.do(lambda target=x.bare: target.fill(0))
        return x

    cuda = SimpleNamespace(
        Device=found.Device, Event=found.Event, Memory=found.Memory, MemoryPointer=found.MemoryPointer,
        MemoryPool=found.MemoryPool, Stream=found.Stream, cublas=SimpleNamespace(),
        compiler=SimpleNamespace(CompileException=found.CompileException),
        alloc_pinned_memory=lambda size: found.PinnedMemoryPointer(size), get_allocator=lambda: default.malloc,
        get_current_stream=lambda device_id=-1: machine.current, using_allocator=using_allocator,
        runtime=SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError, getDeviceProperties=lambda device: {"name": b"a machine without a GPU"},
            driverGetVersion=lambda: 13010, getDeviceCount=lambda: 1,
        ),
    )  # fmt: skip
    return SimpleNamespace(
        RawModule=found.RawModule, array=machine.array, asnumpy=lambda a: np.array(machine.read(a.bare)), cuda=cuda,
        ascontiguousarray=lambda a: a if a.flags.c_contiguous else a.copy(), empty=empty, ndarray=DeviceArray,
        get_default_memory_pool=lambda: default, get_default_pinned_memory_pool=lambda: found.PinnedMemoryPool(),
        uint8=np.uint8, zeros=zeros, ones=lambda shape, dtype=float: zeros(shape, dtype) + 1,
        is_available=lambda: True, __version__="14.2.0", machine=machine, classes=found, cublas=_cublas(machine),
    )  # fmt: skip


def _classes(machine):
    """CuPy's classes, on a machine."""
    (Memory, MemoryPool), numbers = pool_classes(machine), itertools.count(1)

    class Stream:
        def __init__(self, null=False, non_blocking=False):
            assert null or non_blocking, "a stream that waits for the default one cannot be recorded beside it"
            self.ptr, self.is_default, self.asked, self.done = next(numbers), null, 0, 0
            self._waiting, self._before = deque(), []
            machine.streams.append(self)

        def __enter__(self):
            self._before.append(machine.current)
            machine.current = self
            return self

        def __exit__(self, *args):
            machine.current = self._before.pop()

        def ask(self, work):
            self._waiting.append(work)
            self.asked += 1
            if machine.works_at_once(self):
                self.run_until(self.asked)

        def run_until(self, count):
            while self.done < count:
                self.done += 1
                with np.errstate(all="ignore"):
                    self._waiting.popleft()()

        def synchronize(self):
            machine.expect_not_recording("waiting")
            self.run_until(self.asked)

        def record(self, event=None):
            event.record(self)
            return event

        def wait_event(self, event):
            stream, count = event.place
            self.ask(lambda: stream.run_until(count))

        def begin_capture(self, mode=None):
            assert machine.current is self
            machine.recorded, machine.graph_memory = [], set()

        def end_capture(self):
            graph, machine.recorded = Graph(machine.recorded, machine.graph_memory), None
            return graph

    class Event:
        def __init__(self, block=False, disable_timing=False):
            self.place = machine.current, 0

        def record(self, stream=None):
            stream = stream or machine.current
            self.place = stream, stream.asked

        @property
        def done(self):
            self.synchronize()  # who asks again and again waits
            return True

        def synchronize(self):
            stream, count = self.place
            stream.run_until(count)

    class Graph:
        def __init__(self, record, memory):
            self.nodes, self._memory, self._is_new = record, memory, True
            self._last = machine.current, 0  # stream, and what it was asked for up to the last launch

        def launch(self, stream=None):
            machine.expect_not_recording("a launch")
            assert not any(piece.given_back for piece in self._memory), "a graph's memory was given back"
            machine.launches += 1
            machine.records += self._is_new
            self._is_new = False
            for work in self.nodes:
                machine.do(work)
            self._last = machine.current, machine.current.asked

        def __del__(self):
            stream, asked = self._last
            assert stream.done >= asked, "a graph is dropped that still runs"

    class PinnedMemoryPool:
        def free_all_blocks(self):
            pass

    class PinnedMemoryPointer(bytearray):
        @property
        def ptr(self):
            return ctypes.addressof(ctypes.c_char.from_buffer(self))

    class MemoryPointer:
        def __init__(self, mem, offset=0):
            is_array = isinstance(mem, np.ndarray)
            self.mem, self.ptr = mem, int((mem if is_array else mem.buffer).ctypes.data) + offset

        def copy_from_host_async(self, mem, size, stream=None):
            machine.expect_not_recording("a copy from the host")
            machine.do(lambda to=self.ptr: ctypes.memmove(to, mem, size) and None)

    class Device:
        def __init__(self, device=None):
            self.id = machine.device if device is None else device

        def __enter__(self):
            self._before, machine.device = machine.device, self.id
            return self

        def __exit__(self, *args):
            machine.device = self._before

        def synchronize(self):
            for stream in machine.streams:
                stream.synchronize()

        def use(self):
            machine.device = self.id

    class CompileException(Exception):
        pass

    class RawModule:
        def __init__(self, code, *, options=()):
            self._kind = {source(file, dtype): (file, dtype) for file in files() for dtype in REAL}[code]

        def compile(self, log_stream=None):
            pass

        def get_function(self, name):
            return RawKernel(name, *self._kind)

    class RawKernel:
        def __init__(self, name, file, dtype):
            self._name, self._dtype = f"{file}.{name}", dtype

        def __call__(self, grid, block, args):
            given = [x.bare if isinstance(x, DeviceArray) else x for x in args]
            assert not any(map(host_runtime.is_in_memory, args)), "an array of the host"
            machine.do(lambda: machine.kernels.launch(self._name, self._dtype, grid[0], block[0], *given))

    return SimpleNamespace(**{name: kind for name, kind in locals().items() if isinstance(kind, type)})


def _cublas(machine):
    """The library, whose products wait for their turn on a stream."""
    library = fake_cublas.FakeCublas()

    def waiting(name, function):
        def called(*arguments):
            def product():
                assert function(*arguments) == 0

            product.__name__ = name
            machine.do(product)
            return 0

        return called

    for name in fake_cublas.DECLARED:
        if "Gemm" in name or name == "cublasLtMatmul":
            setattr(library, name, waiting(name, getattr(library, name)))
    return library
