"""A profiler for operations: how long each call of a step takes, in any backend.

All computation of a model goes through its table of operations. So a copy of the table whose pairs
read a clock before and after each call times everything, without a change to any layer. The clock waits
for the device at both ends. On a GPU that makes a step slower than usual, since operations no longer
overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from npformer.backend.backend import Backend, Device
from npformer.backend.flops import NOTHING, Work, work_of
from npformer.backend.ops import Ops, Pair
from npformer.io.seconds import now, since


class Part(NamedTuple):
    """The part of a step that a time belongs to."""

    op: str
    direction: str  # "forward", "backward"; the optimiser's is "update"


@dataclass
class Tally:
    """The totals of all calls of a part."""

    calls: int = 0
    seconds: float = 0.0
    work: Work = NOTHING


@dataclass
class Clock:
    """Adds up times by part while it runs, and work too if counting. Parts must not be nested."""

    device: Device
    running: bool = False
    counting: bool = False  # off while times are measured: counting takes some microseconds per call
    parts: dict[Part, Tally] = field(default_factory=dict)

    def start(self, counting: bool = False) -> None:
        """Begin anew."""
        self.parts = {}
        self.running, self.counting = True, counting

    def stop(self) -> dict[Part, Tally]:
        """Stop. Returns the totals since start."""
        self.running = self.counting = False
        return self.parts

    def time(self, part: Part, function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """Call function(*inputs, **options), and add its time to part if the clock is running."""
        if not self.running:
            return function(*inputs, **options)
        self.device.synchronize()
        start = now()
        result = function(*inputs, **options)
        self.device.synchronize()
        tally = self.parts.setdefault(part, Tally())
        tally.seconds += since(start)
        tally.calls += 1
        return result

    def count(self, part: Part, work: Work) -> None:
        """Add work to part if the clock is counting."""
        if self.counting:
            tally = self.parts.setdefault(part, Tally())
            tally.work = tally.work.plus(work)


class _Watched(NamedTuple):
    """A cache together with the work of its backward, which follows from the forward's inputs."""

    cache: Any
    work: Work


def timed_backend(backend: Backend, clock: Clock) -> Backend:
    """backend with every operation timed. Nothing is captured, since a replay calls no operations."""
    engine = backend.engine and backend.engine.eager()
    return replace(backend, ops=timed_ops(backend.ops, clock), engine=engine)


def timed_ops(ops: Ops, clock: Clock) -> Ops:
    """The same operations, with forward and backward of each timed."""
    return Ops(**{name: timed_pair(name, pair, clock) for name, pair in vars(ops).items()})


def timed_pair(name: str, pair: Pair, clock: Clock) -> Pair:
    """The pair called name, timed."""
    upward, downward = Part(name, "forward"), Part(name, "backward")

    def forward(*inputs: Any, **options: Any) -> tuple[Any, _Watched]:
        y, cache = clock.time(upward, pair.forward, *inputs, **options)
        forward_work, backward_work = work_of(name, y, inputs) if clock.counting else (NOTHING, NOTHING)
        clock.count(upward, forward_work)
        return y, _Watched(cache, backward_work)

    def backward(dy: Any, watched: _Watched, into: Sequence[Any] = ()) -> Any:
        clock.count(downward, watched.work)
        return clock.time(downward, pair.backward, dy, watched.cache, into)

    return Pair(forward, backward)
