"""A function of device arrays, recorded once and replayed: one launch for all its kernels.

Launching a kernel costs the processor some microseconds and CuPy's calls tens of them, more than most
kernels of a small model take; on the host, Python's calls cost as much. A graph (CUDA's, or the host's
record in ``numba/replay.py``) is the list of what was launched, with all addresses, and the device goes
through it alone. So the addresses must stay good: inputs are copied to places that the
graph owns, and everything in between lives in a memory pool of its own, which is kept as long as the
graph. (In one pool for all, what a later call keeps could lie where an earlier graph writes.)

What happens when shapes are seen

    for the first time     the function is run as it is, on a GPU on the graphs' own stream: that compiles
                           kernels and fills the pool with what the record will need
    for the second         it is run again while the stream records, and the record is launched
    from then on           the record is launched

So a shape that comes once is never recorded, and recording allocates nothing. Graphs are kept for the
shapes that were used last, ``MOST`` of them. If the device's memory is full, those of other shapes go
first. Where recording fails, the function is run as it is from then on, and the reason is said once.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol
from weakref import finalize

from npformer.backend.staging import arrays_of, key_of, with_arrays
from npformer.errors import DeviceMemoryError, NpformerError
from npformer.seconds import now, since
from npformer.typing import Array, HostArray

MOST = 8  # graphs kept for one function, unless told otherwise


class Stage(Protocol):
    """Places in the device's memory that are filled from the host before each launch."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The places."""

    def fill(self, numbers: Sequence[HostArray]) -> None:
        """Copy numbers to the arrays, in the order of everything else, without waiting for the device."""


class Driver(Protocol):
    """What recording asks of a device: ``CupyDriver`` of a GPU, ``HostDriver`` of the host; tests have another."""

    name: str  # of the device

    def pool(self) -> Any:
        """A new memory pool."""

    def release(self, pool: Any) -> None:
        """Wait for the device, and give the pool's memory back to it."""

    def trim(self) -> None:
        """Give back what the pool of everything else has unused."""

    def stage(self, like: Sequence[HostArray]) -> Stage:
        """Places for arrays like these."""

    def using(self, pool: Any) -> AbstractContextManager[None]:
        """Inside, work goes to the graphs' own stream, after what was asked for before, with memory from pool."""

    def record(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        """Do work while recording, inside ``using``. Returns what can be launched, and what work returned.

        None to be launched: these shapes are not worth recording.
        """

    def launch(self, graph: Any) -> None:
        """Run a record, in the order of everything else."""

    def fresh(self, x: Array) -> Array:
        """A copy of x, in the order of everything else."""

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether this says that the device's memory is full."""


class _Shape:
    """What is kept for one shape of inputs."""

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
        self._shapes: OrderedDict[Any, _Shape] = OrderedDict()  # the one used last is the last
        self._seen: Sequence[Any] = ()
        self._records = 0
        # a pool that nobody holds keeps its memory; at the end of the process all goes anyway
        finalize(self, _drop_all, self._shapes, driver).atexit = False

    def __call__(self, subject: Any, given: Any) -> tuple[Array | None, ...]:
        """The function's outputs, fresh arrays. Raises DeviceMemoryError if the device's memory is too small."""
        self._forget_if_changed(self._static_arguments(subject))
        numbers = arrays_of(given, self._dtype)
        key = key_of(given, numbers)
        problem: str | None = ""
        for _ in range(2):
            outputs: tuple[Array | None, ...]
            outputs, problem = attempt(self._driver, self._run, key, numbers, subject, given)
            if problem is None:
                return outputs
            self.clear()
            self._driver.trim()
        raise out_of_memory(self._driver, problem)

    def clear(self) -> None:
        """Forget all records and give their memory back."""
        _drop_all(self._shapes, self._driver)

    def _forget_if_changed(self, now: Sequence[Any]) -> None:
        """A record does what the function did when it was made."""
        if len(now) != len(self._seen) or not all(map(_same, now, self._seen)):
            self.clear()
            self._seen = now

    def _run(self, key: Any, numbers: Sequence[HostArray], subject: Any, given: Any) -> tuple[Array | None, ...]:
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= (self._most or MOST):
                _drop(self._shapes.popitem(last=False)[1], self._driver)
            shape = self._shapes[key] = _Shape(self._driver, numbers)
        self._shapes.move_to_end(key)
        shape.stage.fill(numbers)
        work = partial(self._compute, subject, given, shape.stage)
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

    def _compute(self, subject: Any, given: Any, stage: Stage) -> Sequence[Array | None]:
        return self._function(subject, with_arrays(given, iter(stage.arrays)))

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
        if self._records <= MOST:  # later ones take the places of earlier ones, as often as shapes change
            self._say(f"recorded a step as one CUDA graph in {since(began):.2f} s")


def _drop_all(shapes: OrderedDict[Any, _Shape], driver: Driver) -> None:
    while shapes:
        _drop(shapes.popitem()[1], driver)


def _drop(shape: _Shape, driver: Driver) -> None:
    """Forget the record first, which is about the pool's memory, then give that back."""
    shape.graph, shape.outputs = None, ()
    driver.release(shape.pool)


class Uncaptured:
    """The function as it is, where it cannot be recorded, with the same error when memory is full."""

    def __init__(self, function: Callable[..., Any], driver: Driver) -> None:
        self._function, self._driver = function, driver

    def __call__(self, subject: Any, given: Any) -> Any:
        outputs, problem = attempt(self._driver, self._function, subject, given)
        if problem is None:
            return outputs
        self._driver.trim()
        raise out_of_memory(self._driver, problem)


def attempt(driver: Driver, function: Callable[..., Any], *inputs: Any) -> tuple[Any, str | None]:
    """(what function returns, None), or (None, what it says if the device's memory is full).

    Not the error itself: it would hold on to everything that was computed, and with it to the memory.
    """
    try:
        return function(*inputs), None
    except Exception as error:
        if not driver.is_out_of_memory(error):
            raise
        return None, str(error)


def out_of_memory(driver: Driver, problem: str | None) -> DeviceMemoryError:
    """The error for what could not be helped."""
    return DeviceMemoryError(f"{driver.name}: expected room for what is computed, but its memory is full: {problem}")


#: What is compared by its value; arrays, layers and the like are compared by being the same one.
_PLAIN = (bool, int, float, str, tuple, type(None))


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _PLAIN) and bool(a == b))


def _to_stderr(text: str) -> None:
    print(f"npformer: {text}", file=sys.stderr, flush=True)
