"""Makes a step of a run again, from the nearest checkpoint before it that was kept; the run's folder stays as it is."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import ConfigError
from npformer.io.seconds import now, since
from npformer.run.assemble import Assembled, assemble
from npformer.run.checkpoint import list_checkpoints, load_checkpoint, step_in
from npformer.run.directory import RunDirectory
from npformer.run.metrics import read
from npformer.run.model_arrays import copy_arrays, saved_arrays
from npformer.run.resume import saved_options
from npformer.see.explain.change import POINTS
from npformer.see.explain.made import Made, made, unmade


class Ready(NamedTuple):
    """A run at a checkpoint, or at its beginning, from which a later step can be made."""

    assembled: Assembled
    number: int  # of the step that is asked for
    begins: int  # the steps that are already made
    seconds: tuple[float, float]  # that the way there and the split of the change will take, at least and at most

    @property
    def pieces(self) -> tuple[str, ...]:
        """The names of targets, by id."""
        return tuple(self.assembled.task.classes) or tuple(self.assembled.task.vocabulary.pieces)

    def make(self) -> Made:
        """Make the steps up to the one that is asked for, and that one."""
        step = self.assembled.step
        while step.step_number < self.number - 1:
            step(*self._batch(step.step_number + 1))
        return made(step, self._batch(self.number))

    def _batch(self, number: int) -> tuple[Any, ...]:
        return tuple(self.assembled.task.batch(number, self.assembled.options.training.batch_size))


def ready(path: Path, number: int) -> Ready:
    """The run in a folder, before this step. Raises ConfigError, and what resuming a run raises."""
    run = RunDirectory.open(path)
    kept = list_checkpoints(run.checkpoints)
    records = [line for line in read(run.metrics_path) if line.get("kind") == "train"]
    last = max([*map(step_in, kept), *(int(line["step"]) for line in records)], default=0)
    if not 1 <= number <= last:
        raise ConfigError(f"--step: expected a step that {path} has made, 1 to {last}, got {number}")
    before = [checkpoint for checkpoint in kept if step_in(checkpoint) < number]
    checkpoint = load_checkpoint(before[-1]) if before else None
    assembled = assemble(saved_options(run, checkpoint), checkpoint)
    if checkpoint is not None:
        step = assembled.step
        arrays = saved_arrays(step.model, step.optimizer) | {"loss_sum": step.model.backend.zeros(())}
        copy_arrays(arrays, checkpoint.arrays, step.model.backend, str(checkpoint.path))
        step.optimizer.t = checkpoint.step
    begins = assembled.step.step_number
    batch = tuple(assembled.task.batch(number, assembled.options.training.batch_size))
    gradient = _seconds_of_gradient(assembled, batch)
    speeds = [line["tokens_per_second"] for line in records if line.get("tokens_per_second", 0) > 0]
    one = int(np.count_nonzero(batch[-1])) / median(speeds) if speeds else gradient
    way = (number - begins) * one
    return Ready(assembled, number, begins, (way + POINTS[0] * gradient, way + sum(POINTS) * gradient))


def _seconds_of_gradient(assembled: Assembled, batch: tuple[Any, ...]) -> float:
    """Measured: of one gradient in float64, of which the split of a change needs many."""
    first = unmade(assembled.step, batch)
    began = now()
    first.gradient(first.before)
    return since(began)
