"""Timing whole training steps, and where the time of a step goes.

A profiled step runs on one thread, including its matrix products. So the times of its parts add up to the
step's time. Steps with and without timing of the parts
take turns, which shows the cost of the timing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Arena, Backend
from npformer.backend.numpy.blas_threads import one_blas_thread
from npformer.backend.timing import Clock, Part, Tally, timed_backend
from npformer.errors import ConfigError
from npformer.io.progress_bar import Bar
from npformer.io.seconds import now, since
from npformer.models import Transformer
from npformer.models.presets import Preset
from npformer.optim import Adam
from npformer.training.step import TrainStep

#: The rest of a step, without operations and optimiser: Python, views and their copies, zeroing gradients.
BETWEEN = Part("layers, in Python", "between")

#: Limits on the number of steps: MOST_STEPS, or one for each SHORTEST_STEP, whichever is more. A clock that stands
#: still would otherwise never end the measurement.
PATIENCE, SHORTEST_STEP = 100, 1e-5  # seconds


class Budget(NamedTuple):
    """How often to measure: ``steps`` times; if None, at least three times and until ``seconds`` have passed."""

    steps: int | None = None
    seconds: float = 5.0

    def left(self, done: int, began: float) -> bool:
        """Whether to measure again, after ``done`` measurements since the time ``began``."""
        if self.steps is not None:
            return done < self.steps
        elapsed = since(began)
        return done < 3 or (elapsed < self.seconds and done < PATIENCE + elapsed / SHORTEST_STEP)

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


@dataclass(frozen=True)
class Row:
    """One part of a step: its calls and its seconds."""

    op: str
    direction: str
    calls: int
    seconds: float
    share: float  # of the step


@dataclass(frozen=True)
class Profile:
    """Where a step's time goes: rows by time, the longest first; they add up to ``seconds``."""

    rows: tuple[Row, ...]
    seconds: float  # of a step with timed parts
    unclocked: float  # seconds of a step without timed parts
    steps: int


def time_steps(preset: Preset, backend: Backend, dropout: float, budget: Budget) -> StepTimes:
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


def profile_step(preset: Preset, backend: Backend, dropout: float, budget: Budget) -> Profile:
    """Measure the parts of a step. Raises ConfigError unless backend has a single thread."""
    if backend.threads > 1:
        raise ConfigError(
            f"backend: expected a single thread, so that times add up, got {backend.threads}; "
            "get_backend(..., threads=1)"
        )
    with one_blas_thread():
        return _profile(preset, backend, dropout, budget)


def _profile(preset: Preset, backend: Backend, dropout: float, budget: Budget) -> Profile:
    clock = Clock(backend.device)
    model = Transformer(preset.config(dropout), backend=timed_backend(backend, clock), seed=0)
    step, batch = TrainStep(model, _TimedAdam(model.arena, clock)), preset.example_batch()
    _timed(step, batch, backend)  # compiles, fills caches
    on: list[tuple[float, Mapping[Part, Tally]]] = []
    off = []
    began = now()
    with budget.bar("timing every operation") as bar:
        while budget.left(len(on), began):
            off.append(_timed(step, batch, backend)[0])
            clock.start()
            taken = _timed(step, batch, backend)[0]
            on.append((taken, clock.stop()))
            bar.reach(budget.reached(len(on), began))
    on = sorted(on, key=lambda measured: measured[0])[: -(-len(on) // 2)]
    quick = sorted(off)[: -(-len(off) // 2)]  # the faster half of each, since other processes only slow steps down
    seconds = float(np.mean([taken for taken, _ in on]))
    return Profile(_rows(on), seconds, float(np.mean(quick)), len(on))


def _rows(steps: Sequence[tuple[float, Mapping[Part, Tally]]]) -> tuple[Row, ...]:
    """The mean step's parts and the time between them, the longest first."""
    total = sum(taken for taken, _ in steps)
    known = {part: sum(tallies[part].seconds for _, tallies in steps) for part in steps[0][1]}
    calls = {part: tally.calls for part, tally in steps[0][1].items()} | {BETWEEN: 1}
    rows = [
        Row(*part, calls[part], seconds / len(steps), seconds / total)
        for part, seconds in (known | {BETWEEN: max(0.0, total - sum(known.values()))}).items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _timed(step: TrainStep, batch: Sequence[Any], backend: Backend) -> tuple[float, float]:
    """(seconds, loss) of one step; reading the loss waits for the device."""
    backend.device.synchronize()
    start = now()
    loss = float(step(*batch))
    backend.device.synchronize()
    return since(start), loss


class _TimedAdam(Adam):
    """Adam with a timed update."""

    def __init__(self, arena: Arena, clock: Clock) -> None:
        super().__init__(arena, lr=1e-4)
        self.clock = clock

    def step(self, lr: float | None = None, parts: Sequence[slice] | None = None) -> None:
        self.clock.time(Part("adam", "update"), super().step, lr, parts)
