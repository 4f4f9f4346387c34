"""A function of device arrays, recorded once and replayed: one launch for all its kernels.

Launching a kernel takes the CPU some microseconds and a call of CuPy tens of them, more than most
kernels of a small model take to run; on the host, Python's calls take as long. A graph (CUDA's, or the host's
record in ``numba/replay.py``) is the list of the launched kernels with all addresses, which the device
executes without the CPU. So the addresses must stay valid: inputs are copied to buffers that the
graph owns, and all intermediate arrays live in the graph's own memory pool, which is kept as long as the
graph. (In a shared pool, an earlier graph could overwrite an array that a later call keeps.)

What happens when shapes are seen

    for the first time     the function is run uncaptured, on a GPU on the graphs' own stream: that compiles
                           kernels and allocates in the pool the memory that the record will need
    for the second         it is run again while the stream records, and the record is launched
    from then on           the record is launched

So a shape that occurs once is never recorded, and recording allocates nothing. Graphs are kept for the
``MOST`` shapes used most recently. If the device's memory is full, the graphs of other shapes are freed
first. If recording fails, the function is run uncaptured from then on, and the reason is printed once.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol
from weakref import finalize

from npformer.engine.staging import arrays_of, key_of, with_arrays
from npformer.errors import DeviceMemoryError, NpformerError
from npformer.io.seconds import now, since
from npformer.typing import Array, HostArray

MOST = 8  # graphs kept for one function, unless told otherwise


class Stage(Protocol):
    """Buffers in device memory that are filled from the host before each launch."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The buffers."""

    def fill(self, numbers: Sequence[HostArray]) -> None:
        """Copy numbers to the arrays, in stream order, without waiting for the device."""


class Driver(Protocol):
    """The functions of a device that recording needs: ``CupyDriver`` for a GPU, ``HostDriver`` for the host."""

    name: str  # of the device

    def pool(self) -> Any:
        """A new memory pool."""

    def release(self, pool: Any) -> None:
        """Wait for the device, and give the pool's memory back to it."""

    def trim(self) -> None:
        """Free the unused memory of the pool outside of all graphs."""

    def stage(self, like: Sequence[HostArray]) -> Stage:
        """Buffers for arrays like these."""

    def using(self, pool: Any) -> AbstractContextManager[None]:
        """Inside, work goes to the graphs' own stream, after all earlier work, with memory from pool."""

    def record(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        """Run work while recording, inside ``using``. Returns the graph, and what work returned.

        The graph is None if these shapes are not worth recording.
        """

    def launch(self, graph: Any) -> None:
        """Run a record, in stream order."""

    def fresh(self, x: Array) -> Array:
        """A copy of x, made in stream order."""

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether this error means that the device's memory is full."""


class _Shape:
    """The state for one shape of inputs: pool, buffers, graph."""

    def __init__(self, driver: Driver, numbers: Sequence[HostArray]) -> None:
        self.stage = driver.stage(numbers)
        self.pool = driver.pool()
        self.was_run = self.was_recorded = False
        self.graph: Any = None
        self.outputs: tuple[Array | None, ...] = ()


class Captured:
    """The function, recorded for each shape; see the module's docstring and that of ``backend/backend.py``."""

    def __init__(
        self,
        function: Callable[..., Sequence[Array | None]],
        static_arguments: Callable[[Any], Sequence[Any]],
        driver: Driver,
        dtype: str,
        say: Callable[[str], None] | None = None,
        most: int | None = None,
    ) -> None:
        self.refusal: str | None = None  # why nothing is recorded
        self._function, self._static_arguments = function, static_arguments
        self._driver, self._dtype = driver, dtype
        self._say, self._most = say or _to_stderr, most
        self._shapes: OrderedDict[Any, _Shape] = OrderedDict()  # the most recently used shape is the last
        self._seen: Sequence[Any] = ()
        self._records = 0
        # an unreferenced pool would keep its memory; at the end of the process all memory is freed anyway
        finalize(self, _drop_all, self._shapes, driver).atexit = False

    def __call__(self, subject: Any, inputs: Any) -> tuple[Array | None, ...]:
        """The function's outputs, as new arrays. Raises DeviceMemoryError if the device's memory is too small."""
        self._forget_if_changed(self._static_arguments(subject))
        numbers = arrays_of(inputs, self._dtype)
        key = key_of(inputs, numbers)
        problem: str | None = ""
        for _ in range(2):
            outputs: tuple[Array | None, ...]
            outputs, problem = attempt(self._driver, self._run, key, numbers, subject, inputs)
            if problem is None:
                return outputs
            self.clear()
            self._driver.trim()
        raise out_of_memory(self._driver, problem)

    def clear(self) -> None:
        """Drop all records and free their memory."""
        _drop_all(self._shapes, self._driver)

    def _forget_if_changed(self, now: Sequence[Any]) -> None:
        """Drop the records if the static arguments changed: a record repeats what the function did when recorded."""
        if len(now) != len(self._seen) or not all(map(_same, now, self._seen)):
            self.clear()
            self._seen = now

    def _run(self, key: Any, numbers: Sequence[HostArray], subject: Any, inputs: Any) -> tuple[Array | None, ...]:
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= (self._most or MOST):
                _drop(self._shapes.popitem(last=False)[1], self._driver)
            shape = self._shapes[key] = _Shape(self._driver, numbers)
        self._shapes.move_to_end(key)
        shape.stage.fill(numbers)
        work = partial(self._compute, subject, inputs, shape.stage)
        if shape.was_run and not shape.was_recorded and self.refusal is None:
            self._record(shape, work)
            shape.was_recorded = True
        outputs = shape.outputs
        if shape.graph is not None:
            self._driver.launch(shape.graph)
        else:
            with self._driver.using(shape.pool):
                outputs = tuple(work())
            shape.was_run = True
        return tuple(None if x is None else self._driver.fresh(x) for x in outputs)

    def _compute(self, subject: Any, inputs: Any, stage: Stage) -> Sequence[Array | None]:
        return self._function(subject, with_arrays(inputs, iter(stage.arrays)))

    def _record(self, shape: _Shape, work: Callable[[], Any]) -> None:
        began = now()
        try:
            with self._driver.using(shape.pool):
                shape.graph, outputs = self._driver.record(work)
            shape.outputs = tuple(outputs)
        except NpformerError:
            raise
        except Exception as error:
            shape.graph = None
            if self._driver.is_out_of_memory(error):
                raise
            self.refusal = f"{type(error).__name__}: {error}"
            self._say(f"steps are not recorded as CUDA graphs, and so are slower: {self.refusal}")
            return
        if shape.graph is None:
            return
        self._records += 1
        if self._records <= MOST:  # later records replace earlier ones whenever shapes change; say it only at first
            self._say(f"recorded a step as one CUDA graph in {since(began):.2f} s")


def _drop_all(shapes: OrderedDict[Any, _Shape], driver: Driver) -> None:
    while shapes:
        _drop(shapes.popitem()[1], driver)


def _drop(shape: _Shape, driver: Driver) -> None:
    """Drop the record first, since it refers to the pool's memory, then free that memory."""
    shape.graph, shape.outputs = None, ()
    driver.release(shape.pool)


class Uncaptured:
    """The function without recording, for kernels that cannot be captured. A full memory raises the same error."""

    def __init__(self, function: Callable[..., Any], driver: Driver) -> None:
        self._function, self._driver = function, driver

    def __call__(self, subject: Any, inputs: Any) -> Any:
        outputs, problem = attempt(self._driver, self._function, subject, inputs)
        if problem is None:
            return outputs
        self._driver.trim()
        raise out_of_memory(self._driver, problem)


def attempt(driver: Driver, function: Callable[..., Any], *inputs: Any) -> tuple[Any, str | None]:
    """(the function's result, None), or (None, the error's text if the device's memory is full).

    Not the error itself: it would keep alive all arrays computed so far, and so their memory.
    """
    try:
        return function(*inputs), None
    except Exception as error:
        if not driver.is_out_of_memory(error):
            raise
        return None, str(error)


def out_of_memory(driver: Driver, problem: str | None) -> DeviceMemoryError:
    """The error to raise when freeing other graphs did not help."""
    return DeviceMemoryError(f"{driver.name}: expected room for what is computed, but its memory is full: {problem}")


#: Types that are compared by value. Arrays, layers and other objects are compared by identity.
_PLAIN = (bool, int, float, str, tuple, type(None))


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _PLAIN) and bool(a == b))


def _to_stderr(text: str) -> None:
    print(f"npformer: {text}", file=sys.stderr, flush=True)
