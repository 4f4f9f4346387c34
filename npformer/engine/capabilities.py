"""The capabilities of an engine: threads, records and faster kernels, each of which may be absent.

``capture(function, static_arguments)`` returns a function that may be cheaper to call again. function(subject, inputs)
computes arrays, or None, from ``inputs``: lists and tuples, nested to any depth, of host arrays and Python numbers. It
may use their values only in array computations, not in Python's control flow. When captured, it receives them as
arrays in device memory:

    a host array         the same numbers
    a whole number       () of uint64
    a fraction           () of the backend's dtype
    a tuple of numbers   (n,) of float64

static_arguments(subject) lists everything else that function depends on. If it changes, the captures are dropped.
``capture_part`` is the same for the work of one thread on its shard of a batch; each thread has its own capture.
times: a capture keeps so many times as many records, for a caller that has as many constants for each shape.
changes(subject), of a function that changes more than its outputs, is another value once a call has begun to; such a
call is not made again when memory is full.
A captured function returns new arrays. It may run uncaptured the first time it sees new shapes,
so it must reset any state that an interrupted call may have left incomplete. It keeps no array that it computes
for a later call: calls with other shapes use the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from npformer.engine.cuda.adam import DeviceUpdates
    from npformer.engine.cuda.sums import DeviceBranches

Function = TypeVar("Function", bound=Callable[..., Any])
Jobs = Sequence[Callable[[], Any]]


def run_eagerly(
    function: Function, static_arguments: Callable[[Any], Sequence[Any]] | None = None, **options: Any
) -> Function:
    """The capture of an engine that records nothing: the function unchanged."""
    return function


def called(work: Callable[[], Any], has_begun: Any = None) -> Any:
    """What work returns: on the host the system reports full memory."""
    return work()


def unchanged(ranks: Any) -> Any:
    """The communicator as it is, for arrays of the host."""
    return ranks


def one_after_the_other(jobs: Jobs) -> None:
    """Run the jobs on a single thread."""
    for job in jobs:
        job()


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of an engine; see the module's docstring.

    ``threads`` is the largest number of shards of a training batch, each of at least ``least_part`` numbers, and
    ``in_threads(jobs)`` runs that many jobs at the same time. Within ``on_one_thread()`` products use only the caller's
    thread. ``decoding`` has what recorded decoding needs on the host (``host_decode.py``), and ``rooms`` makes what it
    needs on a GPU (``recorded_decode.py``). ``prepare(names of kernels)`` compiles them before their first call: names
    such as "linear.forward" and "adam". It is None if there is nothing to compile.
    Within ``backward_pass(known)`` the gradients of parameters may be deferred; they are complete on exit. known:
    nobody computes with an operation's result but operations, and what a norm has added to a residual is not read
    again.
    ``with_room(work, has_begun)`` returns what work returns. If memory is full, it frees that of records and tries
    again, unless has_begun() says that something was changed; it raises DeviceMemoryError if that is not enough.
    ``ranks_on_device`` makes a communicator of processes one for arrays on their devices.
    ``adam_update(p, g, m, v, lr, betas, eps, t, decay)`` is one update of flat arrays, in place, as in
    ``optim/adam.py``. ``updates`` ends a step over a whole arena, with all scalars in device memory. ``branches`` adds
    the gradient of a sub-layer's input to that of the stream, which is the same array, within a product.
    """

    threads: int = 1
    least_part: int = 1
    in_threads: Callable[[Jobs], None] = one_after_the_other
    on_one_thread: Callable[[], AbstractContextManager[None]] = nullcontext
    capture: Callable[..., Any] = run_eagerly
    capture_part: Callable[..., Any] = run_eagerly
    with_room: Callable[..., Any] = called
    adam_update: Callable[..., None] | None = None
    updates: DeviceUpdates | None = None
    branches: DeviceBranches | None = None
    backward_pass: Callable[[bool], AbstractContextManager[Any]] = nullcontext
    ranks_on_device: Callable[[Any], Any] = unchanged
    decoding: Any = None
    rooms: Callable[[], Any] | None = None
    prepare: Callable[[Iterable[str]], Any] | None = None

    def parts_of(self, numbers: int) -> int:
        """Into how many shards, one per thread, to split a batch of this many numbers, B·T·C."""
        return max(1, min(self.threads, numbers // self.least_part))


def capabilities_of(model: Any) -> Capabilities:
    """The capabilities of the engine of the model's backend; one thread if it has none by now."""
    engine = model.backend.engine
    return engine if isinstance(engine, Capabilities) else Capabilities()
