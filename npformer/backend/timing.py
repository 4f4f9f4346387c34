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


@dataclass
class Clock:
    """Adds up times by part while it runs. Parts must not be nested."""

    device: Device
    running: bool = False
    parts: dict[Part, Tally] = field(default_factory=dict)

    def start(self) -> None:
        """Begin anew."""
        self.parts, self.running = {}, True

    def stop(self) -> dict[Part, Tally]:
        """Stop. Returns the totals since start."""
        self.running = False
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

    def forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
        made: tuple[Any, Any] = clock.time(upward, pair.forward, *inputs, **options)
        return made

    def backward(dy: Any, cache: Any, into: Sequence[Any] = ()) -> Any:
        return clock.time(downward, pair.backward, dy, cache, into)

    return Pair(forward, backward)
