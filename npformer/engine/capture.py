"""A function of device arrays, recorded once and replayed: one launch for all its kernels.

Launching a kernel takes the CPU some microseconds and a call of CuPy tens of them, more than most
kernels of a small model take to run; on the host, Python's calls take as long. A graph (CUDA's, or the host's
record in ``numba/replay.py``) is the list of the launched kernels with all addresses, which the device
executes without the CPU. So the addresses must stay valid: inputs are copied to buffers that the
graph owns, and all intermediate arrays live in a memory pool that is kept as long as the graphs. The graphs of one
function share that pool: they run one after the other, and outputs are copied out of it.

What happens when shapes are seen

    for the first time     the function is run uncaptured, on a GPU on the graphs' own stream: that compiles
                           kernels and allocates in the pool the memory that the record will need
    for the second         it is run again while the stream records, and the record is launched
    from then on           the record is launched

On a GPU (``Driver.at_first_sight``), shapes that are seen after the function has been run once are recorded at
once: running takes the CPU as long as recording.

Graphs are kept for the ``MOST`` shapes used most recently. The pool may grow by a quarter of what its first record
needed. A shape that needs more is recorded in a new pool, and so are all others once they come again: memory is then
that of the largest shape, not the sum over shapes. If recording fails, the function is run uncaptured from then on, and
the reason is printed once.

If the device's memory is full, every record of the device is dropped and the call is tried again, once, unless it has
begun to change what outlives it: an update that is made twice is no step. So what outputs are copied to is allocated
before a launch. A function that changes more than its outputs has ``changes``: changes(subject) is another value once a
call has begun to.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet, finalize

from npformer.engine.staging import flattened, with_arrays
from npformer.errors import DeviceMemoryError, NpformerError
from npformer.io.progress_bar import say
from npformer.typing import Array, HostArray

Result = TypeVar("Result")
MOST = 64  # graphs kept for one function: texts come in many lengths


class Driver:
    """The functions of a device that recording needs: ``CupyDriver`` for a GPU, ``HostDriver`` for the host.

    Here they do what suffices where a call has ended when it returns, and memory needs no care.
    """

    name: str  # of the device
    memory: Any  # equal for drivers of one device
    at_first_sight: bool  # whether shapes are recorded without running them first

    def pool(self) -> Any:
        """A new memory pool. If the device's memory is full, it raises an error, and frees nothing of its own."""

    def bound(self, pool: Any) -> None:
        """Let the pool grow by a quarter at most; beyond, it is out of memory."""

    def release(self, pool: Any) -> None:
        """Wait for the device, and give the pool's memory back to it."""

    def wait(self) -> None:
        """Wait for the device."""

    def trim(self) -> None:
        """Free the unused memory of the pool outside of all graphs."""

    def stage(self, like: Sequence[HostArray]) -> Any:
        """Buffers for arrays like these in device memory: ``arrays``, and ``fill(numbers)``, which copies to them.

        It copies in stream order, without waiting for the device.
        """

    def using(self, pool: Any) -> AbstractContextManager[None]:
        """Inside, work goes to the graphs' own stream, after all earlier work, with memory from pool."""
        return nullcontext()

    def record(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        """Run work while recording, inside ``using``. Returns the graph, and what work returned.

        The graph is None if these shapes are not worth recording.
        """
        raise NotImplementedError

    def launch(self, graph: Any) -> None:
        """Run a record, in stream order."""

    def blank(self, x: Array) -> Array:
        """An array like x in memory of its own; its numbers are anything."""

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether this error means that the device's memory is full."""
        return False


class _Shape:
    """The state for one shape of inputs: buffers, graph."""

    def __init__(self, driver: Driver, numbers: Sequence[HostArray]) -> None:
        self.stage = driver.stage(numbers) if numbers else None
        self.was_run = self.was_recorded = False
        self.graph: Any = None
        self.outputs: tuple[Array | None, ...] = ()


class _Records:
    """The records of one function, and the memory pool that they share. The most recently used shape is the last."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.shapes: OrderedDict[Any, _Shape] = OrderedDict()
        self.pool = driver.pool()
        free_if_full(self)

    def new(self, key: Any, numbers: Sequence[HostArray], most: int) -> _Shape:
        """The state for a shape that is new, in place of the one used least recently if there are most."""
        if len(self.shapes) >= most:
            self.driver.wait()  # for its graph and its copies from the host
            self.shapes.popitem(last=False)
        shape = self.shapes[key] = _Shape(self.driver, numbers)
        return shape

    def are_kept(self) -> bool:
        """Whether anything is recorded."""
        return any(shape.graph is not None for shape in self.shapes.values())

    def empty(self) -> None:
        """Free the pool's memory. No record may refer to it."""
        self.driver.release(self.pool)
        self.pool = self.driver.pool()

    def clear(self) -> None:
        """Drop the records when none of them runs, since they refer to the pool's memory, then free that memory."""
        if not self.shapes:
            return
        self.driver.wait()
        for shape in self.shapes.values():
            shape.graph, shape.outputs = None, ()
        self.empty()
        self.shapes.clear()


_every: WeakSet[Any] = WeakSet()  # of what is cleared when the memory of its driver's device is full
free_if_full = _every.add  # as long as somebody else holds it


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
        changes: Callable[[Any], Any] | None = None,
    ) -> None:
        self.refusal: str | None = None  # why nothing is recorded
        self._changes, self._has_begun = changes or _nothing, False  # to change something, in the last call
        self._function, self._static_arguments = function, static_arguments
        self._driver, self._dtype = driver, dtype
        self._say, self._most = say or _above_the_bar, most or MOST
        self._kept = _Records(driver)
        self._shapes = self._kept.shapes
        self._has_run, self._at_first_sight = False, driver.at_first_sight
        self._records = 0
        self._seen: Sequence[Any] = ()
        # an unreferenced pool would keep its memory; at the end of the process all memory is freed anyway
        finalize(self, self._kept.clear).atexit = False

    def __call__(self, subject: Any, inputs: Any) -> tuple[Array | None, ...]:
        """The function's outputs, as new arrays. Raises DeviceMemoryError if the device's memory is too small."""
        self._forget_if_changed(self._static_arguments(subject))
        numbers, key = flattened(inputs, self._dtype)
        work = partial(self._run, key, numbers, subject, inputs)
        outputs: tuple[Array | None, ...] = with_room(self._driver, work, lambda: self._has_begun)
        return outputs

    def clear(self) -> None:
        """Drop all records and free their memory."""
        self._kept.clear()

    def _forget_if_changed(self, now: Sequence[Any]) -> None:
        """Drop the records if the static arguments changed: a record repeats what the function did when recorded."""
        if len(now) != len(self._seen) or not all(map(_same, now, self._seen)):
            self.clear()
            self._seen = now
            self._has_run, self._at_first_sight = False, self._driver.at_first_sight  # other kernels, to be compiled

    def _run(self, key: Any, numbers: Sequence[HostArray], subject: Any, inputs: Any) -> tuple[Array | None, ...]:
        self._has_begun = False
        shape = self._shapes.get(key) or self._kept.new(key, numbers, self._most)
        self._shapes.move_to_end(key)
        if shape.stage is not None:
            shape.stage.fill(numbers)
        work = partial(self._compute, subject, inputs, shape.stage)
        known = shape.was_run or (self._has_run and self._at_first_sight)
        if known and not shape.was_recorded and self.refusal is None:
            self._record(shape, work)
        if shape.graph is not None:
            outputs = tuple(None if x is None else self._driver.blank(x) for x in shape.outputs)
            self._has_begun = self._changes is not _nothing
            self._driver.launch(shape.graph)
            return self._filled(outputs, shape.outputs)
        before = self._changes(subject)
        try:
            with self._driver.using(self._kept.pool):
                found = tuple(work())
        finally:
            self._has_begun = self._changes(subject) != before
        shape.was_run = self._has_run = True
        return self._filled(tuple(None if x is None else self._driver.blank(x) for x in found), found)

    @staticmethod
    def _filled(outputs: tuple[Array | None, ...], found: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        """The outputs with what was found in them, in stream order."""
        for x, y in zip(outputs, found, strict=True):
            if x is not None:
                x[...] = y
        return outputs

    def _compute(self, subject: Any, inputs: Any, stage: Any) -> Sequence[Array | None]:
        return self._function(subject, with_arrays(inputs, iter(() if stage is None else stage.arrays)))

    def _record(self, shape: _Shape, work: Callable[[], Any]) -> None:
        is_first = not self._kept.are_kept()
        if is_first and not shape.was_run:
            self._kept.empty()  # of what another shape needed
        try:
            with self._driver.using(self._kept.pool):
                shape.graph, outputs = self._driver.record(work)
            shape.outputs = tuple(outputs)
        except Exception as error:
            shape.graph = None
            if self._driver.is_out_of_memory(error) or (isinstance(error, NpformerError) and shape.was_run):
                raise
            if not shape.was_run:  # perhaps it is only what happens the first time, such as compiling: run it
                self._at_first_sight = False
                return
            self.refusal = f"{type(error).__name__}: {error}"
            self._say(f"steps are not recorded as CUDA graphs, and so are slower: {self.refusal}")
            return
        shape.was_recorded = True
        if shape.graph is None:
            return
        if is_first:
            self._driver.bound(self._kept.pool)
        self._records += 1


class Uncaptured:
    """The function without recording, for kernels that cannot be captured. A full memory raises the same error."""

    def __init__(
        self, function: Callable[..., Any], driver: Driver, changes: Callable[[Any], Any] | None = None
    ) -> None:
        self._function, self._driver, self._changes = function, driver, changes or _nothing

    def __call__(self, subject: Any, inputs: Any) -> Any:
        before = self._changes(subject)
        work = partial(self._function, subject, inputs)
        return with_room(self._driver, work, lambda: self._changes(subject) != before)


def _nothing(subject: Any) -> None:
    """The ``changes`` of a function that changes nothing but its outputs."""


def with_room(driver: Driver, work: Callable[[], Result], has_begun: Callable[[], bool] = lambda: False) -> Result:
    """What work returns. If the device's memory is full, that of its records is freed, and work is tried again, once.

    Not again if it has begun to change something. Raises DeviceMemoryError, which says whether it has.
    """
    for again in (True, False):
        result, problem = _attempt(driver, work)
        if problem is None:
            return result  # type: ignore[return-value]
        for kept in list(_every):
            if kept.driver.memory == driver.memory:
                kept.clear()
        driver.trim()
        if has_begun() or not again:
            break
    raise DeviceMemoryError(
        f"{driver.name}: expected room for what is computed, but its memory is full: {problem}", has_begun()
    )


def _attempt(driver: Driver, work: Callable[[], Result]) -> tuple[Result | None, str | None]:
    """(what work returns, None), or (None, the error's text if the device's memory is full).

    Not the error itself: it would keep alive all arrays computed so far, and so their memory.
    """
    try:
        return work(), None
    except Exception as error:
        if not driver.is_out_of_memory(error):
            raise
        return None, str(error)


#: Types that are compared by value. Arrays, layers and other objects are compared by identity.
_PLAIN = (bool, int, float, str, tuple, type(None))


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _PLAIN) and bool(a == b))


def _above_the_bar(text: str) -> None:
    say(f"npformer: {text}", sys.stderr)
