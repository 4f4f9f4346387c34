"""A machine that records, and is none: arrays of the host behind a door, so that nobody reads them unnoticed.

What is asked of it is done at once, or, while it records, not done but written down with the memory it
is about; a launch goes through what was written. Memory comes from pools: what an array had is handed
to the next one of its size, what was given back is garbage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import array_api_compat.numpy as compat
import numpy as np

from npformer.backend.cupy.graph_driver import places, write

Host = np.ndarray[Any, Any]
UNIT = 512  # bytes by which memory is handed out
PRODUCTS = ("matmul", "tensordot", "vecdot")  # CuPy's, which it refuses to record


class MachineFull(Exception):
    """The memory is full."""


class RecordingError(Exception):
    """Something that cannot be done while recording."""


class Pool:
    """Memory that is handed out again; ``total`` is all that it has."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.total = machine, 0
        self.free: dict[int, list[Host]] = {}

    def take(self, size: int) -> Memory:
        size = max(1, -(-size // UNIT)) * UNIT
        free = self.free.get(size)
        if free:
            return Memory(self, free.pop())
        self.machine.grow(self, size)
        return Memory(self, self.machine.guarded((size,), np.uint8))

    def release(self) -> None:
        for size, buffers in self.free.items():
            for buffer in buffers:
                buffer.fill(255)
                self.total -= size
        self.free = {}


class Memory:
    """A piece of a pool, given back when nobody holds it any more."""

    def __init__(self, pool: Pool, buffer: Host) -> None:
        self.pool, self.buffer = pool, buffer

    def __del__(self) -> None:
        self.pool.free.setdefault(self.buffer.nbytes, []).append(self.buffer)


class Namespace:
    """The array API's functions for DeviceArrays."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(compat, name)
        if isinstance(found, type) or not callable(found) or name == "isdtype":
            return found
        return lambda *inputs, **options: call(name, found, inputs, options)


NAMESPACE = Namespace()


def call(name: str, function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """function of arrays: a view, or an array of its own."""
    arrays = [x for x in flat((*inputs, *options.values())) if isinstance(x, DeviceArray)]
    machine = arrays[0].machine if arrays else options["device"]
    options = {key: bare(x) for key, x in options.items() if key != "device"}
    given = bare(inputs)
    assert not any(isinstance(x, np.ndarray) for x in flat(inputs)), f"{name}: an array of the host among the device's"
    if machine.recorded is not None and name in PRODUCTS:
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")

    def compute() -> Any:
        with np.errstate(all="ignore"):
            found = function(*given, **options)
        return np.asarray(found) if isinstance(found, np.generic) else found

    found = compute()
    if not isinstance(found, np.ndarray):
        return found
    for x in arrays:
        if np.shares_memory(found, x.bare):
            return DeviceArray(machine, x.memory, found)
    out = machine.empty(found.shape, found.dtype)
    machine.do(copying(out.bare, compute))
    return out


def copying(target: Host, compute: Callable[[], Any]) -> Callable[[], None]:
    """Work that holds on to the host's memory, and to no DeviceArray that would keep it taken."""
    return lambda: np.copyto(target, compute())


def bare(x: Any) -> Any:
    """x with the host's arrays in place of the device's."""
    if isinstance(x, DeviceArray):
        return x.bare
    return type(x)(map(bare, x)) if type(x) in (tuple, list) else x


def flat(x: Any) -> Iterator[Any]:
    if type(x) in (tuple, list):
        for part in x:
            yield from flat(part)
    else:
        yield x


class DeviceArray:
    """An array of the machine."""

    __array_ufunc__ = None  # NumPy leaves it alone
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, machine: Machine, memory: Memory, array: Host) -> None:
        self.machine, self.memory, self.bare = machine, memory, array

    def __array_namespace__(self, api_version: str | None = None) -> Namespace:
        return NAMESPACE

    @property
    def device(self) -> Machine:
        return self.machine

    @property
    def T(self) -> DeviceArray:  # noqa: N802
        return self._view(self.bare.T)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "strides", "itemsize", "nbytes", "flags"):
            return getattr(self.bare, name)
        if name in ("astype", "copy", "sum", "reshape", "transpose", "swapaxes", "ravel", "view"):
            method = getattr(np.ndarray, name)
            return lambda *inputs, **options: call(name, method, (self, *inputs), options)
        raise AttributeError(f"{name}: not an attribute that arrays of every library have")

    def __len__(self) -> int:
        return len(self.bare)

    def _view(self, array: Host) -> DeviceArray:
        return DeviceArray(self.machine, self.memory, array)

    def __getitem__(self, index: Any) -> DeviceArray:
        parts = index if isinstance(index, tuple) else (index,)
        rest = () if any(part is Ellipsis for part in parts) else (Ellipsis,)  # a single number is a view, too
        return self._view(self.bare[*parts, *rest])

    def __setitem__(self, index: Any, value: Any) -> None:
        assert not isinstance(value, np.ndarray), "an array of the host put into the device's"
        given = bare(value)
        self.machine.do(copying(self[index].bare, lambda: given))

    def _read(self, *_: Any) -> Any:
        self.machine.expect_not_recording("reading an array's numbers")
        return self.bare

    def __array__(self, *_: Any, **__: Any) -> Host:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __float__(self) -> float:
        return float(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __index__(self) -> int:
        return int(self._read())

    def __bool__(self) -> bool:
        return bool(self._read())

    def item(self) -> Any:
        return self._read().item()

    def tolist(self) -> Any:
        return self._read().tolist()


def _operators() -> None:
    functions = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "pow": np.power,
        "floordiv": np.floor_divide, "mod": np.remainder, "matmul": np.matmul, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
        "ne": np.not_equal,
    }  # fmt: skip
    for name, function in functions.items():

        def forward(self: Any, other: Any, f: Any = function, n: str = name) -> Any:
            return call(n, f, (self, other), {})

        def reverse(self: Any, other: Any, f: Any = function, n: str = name) -> Any:
            return call(n, f, (other, self), {})

        def in_place(self: Any, other: Any, f: Any = function) -> Any:
            target, given = self.bare, bare(other)
            assert not isinstance(other, np.ndarray), "an array of the host among the device's"
            self.machine.do(lambda: f(target, given, out=target, casting="same_kind"))
            return self

        setattr(DeviceArray, f"__{name}__", forward)
        setattr(DeviceArray, f"__r{name}__", reverse)
        setattr(DeviceArray, f"__i{name}__", in_place)
    for name, function in (("neg", np.negative), ("invert", np.invert), ("abs", np.abs)):
        setattr(DeviceArray, f"__{name}__", lambda self, f=function, n=name: call(n, f, (self,), {}))


_operators()


class Stage:
    """Places that are filled at once: a copy waits for what was asked for before."""

    def __init__(self, machine: Machine, like: Sequence[Host]) -> None:
        starts, size = places(like)
        block = machine.empty((size,), np.uint8)
        self.arrays = tuple(
            DeviceArray(machine, block.memory, block.bare[at : at + x.nbytes].view(x.dtype).reshape(x.shape))
            for at, x in zip(starts, like, strict=True)
        )
        self._block, self._starts, self._machine = block, starts, machine

    def fill(self, numbers: Sequence[Host]) -> None:
        self._machine.expect_not_recording("a copy from the host")
        write(self._block.bare, self._starts, numbers)


class Machine:
    """Device and driver in one. ``room`` is how many bytes it has; ``records`` and ``launches`` count."""

    name = "a machine that records"

    def __init__(self, guarded: Callable[..., Host], room: int = 1 << 40) -> None:
        self.guarded, self.room = guarded, room
        self.recorded: list[Callable[[], None]] | None = None
        self.records = self.launches = 0
        self.common = Pool(self)
        self.pools = WeakSet([self.common])  # a pool that nobody holds has given everything back
        self._in_use = self.common

    @property
    def used(self) -> int:
        """Bytes that all pools have."""
        return sum(pool.total for pool in self.pools)

    def grow(self, pool: Pool, size: int) -> None:
        self.expect_not_recording("asking the driver for memory")
        if self.used + size > self.room:
            raise MachineFull(f"no room for {size} bytes")
        pool.total += size

    def expect_not_recording(self, what: str) -> None:
        if self.recorded is not None:
            raise RecordingError(f"{what} while recording")

    def do(self, work: Callable[[], None]) -> None:
        """Do work, or write it down."""
        if self.recorded is None:
            with np.errstate(all="ignore"):
                work()
        else:
            self.recorded.append(work)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
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

    def owns(self, x: Any) -> bool:
        return isinstance(x, DeviceArray)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        x = self.empty(shape, dtype)
        x[...] = 0
        return x

    def synchronize(self) -> None:
        self.expect_not_recording("waiting")

    # a driver

    def pool(self) -> Pool:
        made = Pool(self)
        self.pools.add(made)
        return made

    def release(self, pool: Pool) -> None:
        self.synchronize()
        pool.release()

    def trim(self) -> None:
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
        self.recorded = []
        try:
            outputs = work()
            self.records += 1
            return self.recorded, outputs
        finally:
            self.recorded = None

    def launch(self, graph: list[Callable[[], None]]) -> None:
        self.expect_not_recording("a launch")
        self.launches += 1
        for work in graph:
            self.do(work)

    def fresh(self, x: DeviceArray) -> DeviceArray:
        self.expect_not_recording("a copy for the caller")
        return x.copy()

    def is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, MachineFull)


class Card:
    """A card whose arrays are the machine's, on one whose arrays are the host's."""

    def __init__(self, machine: Machine, inner: Any) -> None:
        self.machine, self.inner, self.precision = machine, inner, inner.precision

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        return self.machine.empty(shape, dtype)

    def contiguous(self, x: DeviceArray) -> DeviceArray:
        return x if x.flags.c_contiguous else x.copy()

    def launch(self, kernel: str, dtype: Any, blocks: int, threads: int, *arguments: Any) -> None:
        given = [bare(x) for x in arguments]
        assert not any(isinstance(x, np.ndarray) for x in arguments), f"{kernel}: an array of the host"
        self.machine.do(lambda: self.inner.launch(kernel, dtype, blocks, threads, *given))

    def product(self, a: Any, b: Any, out: Any, *, add: bool = False, scale: float = 1.0) -> Any:
        given = (a.bare, b.bare, out.bare)
        self.machine.do(lambda: self.inner.product(*given, add=add, scale=scale))
        return out
