"""Timing whole training steps, and where the time of a step goes.

All computation of a model goes through its table of operations. So a copy of the table whose pairs read a clock before
and after each call times everything, without a change to any layer. The clock waits for the device at both ends: on a
GPU operations then no longer overlap. A profiled step runs on one thread, including its matrix products, and nothing
of it is recorded, so that the times of its parts add up to the step's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from npformer.backend import Arena, Backend, Ops, Pair
from npformer.backend.numpy.blas import one_blas_thread
from npformer.errors import ConfigError
from npformer.io.progress_bar import Bar
from npformer.io.seconds import now, since
from npformer.models import Transformer
from npformer.models.presets import Preset
from npformer.optim import Adam
from npformer.training.step import TrainStep

Part = tuple[str, str]  # an operation, and its direction
#: The rest of a step, without operations and optimiser: Python, views and their copies, zeroing gradients.
BETWEEN = "layers, in Python", "between"
UPDATE = "adam", "update"


class Repetitions(NamedTuple):
    """How often to measure: ``steps`` times; if None, at least three times and until ``seconds`` have passed."""

    steps: int | None = None
    seconds: float = 5.0

    def left(self, done: int, began: float) -> bool:
        """Whether to measure again, after ``done`` measurements since the time ``began``."""
        if self.steps is not None:
            return done < self.steps
        return done < 3 or since(began) < self.seconds

    def bar(self, what: str) -> Bar:
        """A bar for these measurements, counted in steps or in seconds."""
        return Bar(what, self.seconds if self.steps is None else self.steps)

    def reached(self, done: int, began: float) -> float:
        """How much of the bar ``done`` measurements fill."""
        return min(since(began), self.seconds) if self.steps is None else done


@dataclass(frozen=True)
class StepTimes:
    """The measured times of a step."""

    first: float  # seconds of the first step, which compiles and fills caches; not in ``seconds``
    seconds: tuple[float, ...]
    first_loss: float
    last_loss: float


class ProfileRow(NamedTuple):
    """One part of a step: its calls and its seconds; direction: "forward", "backward", "update" or "between"."""

    op: str
    direction: str
    calls: int
    seconds: float
    share: float  # of the step


class Profile(NamedTuple):
    """Where a step's time goes: rows by time, the longest first; they add up to ``seconds``."""

    rows: tuple[ProfileRow, ...]
    seconds: float
    steps: int


def time_steps(preset: Preset, backend: Backend, dropout: float, budget: Repetitions) -> StepTimes:
    """Time whole training steps (forward, loss, backward, Adam) on one batch."""
    model = Transformer(preset.config(dropout), backend=backend, seed=0)
    step, batch = TrainStep(model, Adam(model.arena, lr=1e-4)), preset.example_batch()
    seconds: list[float] = []
    first, first_loss = _timed(step, batch, backend)
    _timed(step, batch, backend)  # a backend may capture the second step, which then differs from the others too
    loss, began = first_loss, now()
    with budget.bar("timing") as bar:
        while budget.left(len(seconds), began):
            taken, loss = _timed(step, batch, backend)
            seconds.append(taken)
            bar.reach(budget.reached(len(seconds), began))
    return StepTimes(first, tuple(seconds), first_loss, loss)


def profile_step(preset: Preset, backend: Backend, dropout: float, budget: Repetitions) -> Profile:
    """Measure the parts of a step. Raises ConfigError unless backend has a single thread."""
    if backend.threads > 1:
        raise ConfigError(
            f"backend: expected a single thread, so that times add up, got {backend.threads}; "
            "get_backend(..., threads=1)"
        )
    clock, steps = Clock(backend), list[tuple[float, dict[Part, float]]]()
    model = Transformer(preset.config(dropout), backend=clock.timed, seed=0)
    step, batch = TrainStep(model, _TimedAdam(model.arena, clock)), preset.example_batch()
    with one_blas_thread(), budget.bar("timing every operation") as bar:
        _timed(step, batch, backend)  # compiles, fills caches
        began = now()
        while budget.left(len(steps), began):
            clock.restart()
            taken, _ = _timed(step, batch, backend)
            steps.append((taken, clock.seconds))
            bar.reach(budget.reached(len(steps), began))
    quicker = sorted(steps, key=lambda each: each[0])[: -(-len(steps) // 2)]  # other processes only slow steps down
    total = sum(taken for taken, _ in quicker)
    known = {part: sum(seconds[part] for _, seconds in quicker) for part in clock.calls}
    known[BETWEEN] = max(0.0, total - sum(known.values()))
    calls = clock.calls | {BETWEEN: 1}
    rows = [ProfileRow(*part, calls[part], each / len(quicker), each / total) for part, each in known.items()]
    return Profile(tuple(sorted(rows, key=lambda row: -row.seconds)), total / len(quicker), len(quicker))


def _timed(step: TrainStep, batch: Sequence[Any], backend: Backend) -> tuple[float, float]:
    """(seconds, loss) of one step; reading the loss waits for the device."""
    backend.device.synchronize()
    start = now()
    loss = float(step(*batch))
    backend.device.synchronize()
    return since(start), loss


class Clock:
    """Adds up calls and seconds by (operation, direction). Calls must not be nested."""

    def __init__(self, backend: Backend) -> None:
        self._device = backend.device
        ops = Ops(**{name: self._pair(name, pair) for name, pair in vars(backend.ops).items()})
        #: The backend with every operation on the clock. Nothing is captured, since a replay calls no operations.
        self.timed = replace(backend, ops=ops, engine=backend.engine and backend.engine.eager())
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self.calls, self.seconds = Counter[Part](), defaultdict[Part, float](float)

    def time(self, part: Part, function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """Call function(*inputs, **options), and add its time to part."""
        self._device.synchronize()
        start = now()
        result = function(*inputs, **options)
        self._device.synchronize()
        self.seconds[part] += since(start)
        self.calls[part] += 1
        return result

    def _pair(self, name: str, pair: Pair) -> Pair:
        def forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
            made: tuple[Any, Any] = self.time((name, "forward"), pair.forward, *inputs, **options)
            return made

        def backward(dy: Any, cache: Any, into: Sequence[Any] = ()) -> Any:
            return self.time((name, "backward"), pair.backward, dy, cache, into)

        return Pair(forward, backward)


class _TimedAdam(Adam):
    """Adam with a timed update."""

    def __init__(self, arena: Arena, clock: Clock) -> None:
        super().__init__(arena, lr=1e-4)
        self.clock = clock

    def step(self, lr: float | None = None, parts: Sequence[slice] | None = None) -> None:
        self.clock.time(UPDATE, super().step, lr, parts)
