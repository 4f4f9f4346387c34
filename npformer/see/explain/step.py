"""A training step, made for real and kept for questions: before and after, with a twin in float64.

The twin has the step's parameters, moments, options and dropout masks, and the plain kernels. ``look`` asks it for the
batch's loss and ``gradient`` for its gradient, at any values of the parameters: before the step, after it, between.

A step of a run is made again from the nearest checkpoint before it that was kept; the run's folder stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import ConfigError, DivergedError
from npformer.layers import RandomKey
from npformer.models import build_model
from npformer.run.assemble import Assembled, assemble
from npformer.run.checkpoint import list_checkpoints, load_checkpoint, step_in
from npformer.run.directory import RunDirectory
from npformer.run.metrics import read
from npformer.run.model_arrays import copy_arrays, saved_arrays
from npformer.run.resume import saved_options
from npformer.see.explain.update import Update, update_of
from npformer.see.record.models import plain_backend
from npformer.training.descent import Shard, backpropagate, shards_of
from npformer.training.step import TrainStep
from npformer.typing import HostArray


class TokenLoss(NamedTuple):
    """A target that counts, at one look."""

    row: int
    place: int
    target: int
    loss: float  # its own, in nats
    answer: int  # the likeliest class
    confidence: float  # the probability of that


class BatchLook(NamedTuple):
    """The batch at some values of the parameters."""

    loss: float
    tokens: list[TokenLoss]


class ReplayedStep(NamedTuple):
    """A step that was made."""

    number: int  # counts from 1
    twin: TrainStep
    shards: list[Shard]
    update: Update  # as it follows in float64
    before: HostArray  # (n,) of the twin's arena
    after: HostArray  # as the run's own step left them

    def gradient(self, values: HostArray) -> tuple[float, HostArray]:
        """The batch's loss, and its gradient (n,), at these values (n,)."""
        model = self.twin.model
        model.arena.values[...] = values
        model.arena.zero_grad()
        settings = self.twin.settings()
        loss = sum(float(s.share) * float(backpropagate(model, settings, s, None)) for s in self.shards)
        return loss, np.array(model.arena.grads)

    def look(self, values: HostArray) -> BatchLook:
        """The loss at these values (n,), and that of every target."""
        self.twin.model.arena.values[...] = values
        tokens: list[TokenLoss] = []
        first = 0
        for shard in self.shards:
            tokens += self._tokens(shard, first)
            first += shard.rows.stop - shard.rows.start
        return BatchLook(math.fsum(token.loss for token in tokens) / max(1, len(tokens)), tokens)

    def _tokens(self, shard: Shard, first: int) -> Iterator[TokenLoss]:
        model, settings = self.twin.model, self.twin.settings()
        *inputs, targets = shard.batch
        key = RandomKey(settings.seed, shard.number, shard.micro, first_row=shard.rows.start)
        logits = np.asarray(model.forward(*inputs, key=key, checked=True)[0])
        logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        smoothing = settings.label_smoothing
        for row, *place in np.argwhere(np.asarray(targets) != model.config.pad_id).tolist():
            own, target = logs[(row, *place)], int(targets[(row, *place)])
            answer = int(np.argmax(own))
            loss = (smoothing - 1) * float(own[target]) - (smoothing * float(np.mean(own)) if smoothing else 0.0)
            yield TokenLoss(first + row, place[0] if place else 0, target, loss, answer, math.exp(own[answer]))

    def by_parameter(self, flat: HostArray) -> dict[str, HostArray]:
        """Name -> its entries, in its shape, of an array (n,) over the arena."""
        model = self.twin.model
        model.arena.grads[...] = flat
        return {name: np.array(p.grad) for name, p in model.named_parameters()}


def replay_step(step: TrainStep, batch: Sequence[Any]) -> ReplayedStep:
    """Make the step on this batch, and keep what it did. The step's model is trained by it."""
    twin, number, learning_rate = twin_of(step), step.step_number, step.learning_rate
    shards = [shard for (shard,) in shards_of(twin._inputs_of(batch, number), twin.model.backend)]
    before = np.array(twin.model.arena.values)
    one = ReplayedStep(number + 1, twin, shards, None, before, before)  # type: ignore[arg-type]
    one.gradient(before)
    update = update_of(twin.optimizer, learning_rate, step.clip_norm)
    step(*batch)
    _copy(step, twin)
    after = np.array(twin.model.arena.values)
    if not np.isfinite(after).all():
        raise DivergedError(f"step {number + 1}: expected finite parameters after it, got others; try a step before it")
    return one._replace(update=update, after=after)


def twin_of(step: TrainStep) -> TrainStep:
    """The same step in float64 with the plain kernels."""
    source, old = step.model, step.optimizer
    model = build_model(source.config, backend=plain_backend())
    model.arena.segments = tuple(
        replace(mine, lr_scale=same.lr_scale, weight_decay=same.weight_decay, trainable=same.trainable)
        for mine, same in zip(model.arena.segments, source.arena.segments, strict=True)
    )
    adam = type(old)(model.arena, old.lr, old.betas, old.eps)
    adam.weight_decay, adam.t = old.weight_decay, old.t
    twin = TrainStep(
        model, adam, seed=step.seed, label_smoothing=step.label_smoothing, clip_norm=step.clip_norm,
        schedule=step.schedule, accumulate=step.accumulate,
    )  # fmt: skip
    _copy(step, twin)
    return twin


def _copy(step: TrainStep, twin: TrainStep) -> None:
    """Parameters, moments and buffers, in float64."""
    arrays = saved_arrays(step.model, step.optimizer)
    wide = {name: step.model.backend.host(x).astype(np.float64) for name, x in arrays.items()}
    copy_arrays(saved_arrays(twin.model, twin.optimizer), wide, twin.model.backend, "the step")


class Prepared(NamedTuple):
    """A run at a checkpoint, or at its beginning, from which a later step can be made."""

    assembled: Assembled
    number: int  # of the step that is asked for
    begins: int  # the steps that are already made

    @property
    def pieces(self) -> tuple[str, ...]:
        """The names of targets, by id."""
        return tuple(self.assembled.task.classes) or tuple(self.assembled.task.vocabulary.pieces)

    def replay(self) -> ReplayedStep:
        """Make the steps up to the one that is asked for, and that one."""
        step, size = self.assembled.step, self.assembled.options.training.batch_size
        while step.step_number < self.number - 1:
            step(*self.assembled.task.batch(step.step_number + 1, size))
        return replay_step(step, self.assembled.task.batch(self.number, size))


def prepare_step(path: Path, number: int) -> Prepared:
    """The run in a folder, before this step. Raises ConfigError, and what resuming a run raises."""
    run = RunDirectory.open(path)
    kept = list_checkpoints(run.checkpoints)
    made = [int(line["step"]) for line in read(run.metrics_path) if line.get("kind") == "train"]
    last = max([*map(step_in, kept), *made], default=0)
    if not 1 <= number <= last:
        raise ConfigError(f"--step: expected a step that {path} has made, 1 to {last}, got {number}")
    before = [checkpoint for checkpoint in kept if step_in(checkpoint) < number]
    checkpoint = load_checkpoint(before[-1]) if before else None
    assembled = assemble(saved_options(run, checkpoint), checkpoint)
    step = assembled.step
    if checkpoint is not None:
        arrays = saved_arrays(step.model, step.optimizer) | {"loss_sum": step.model.backend.zeros(())}
        copy_arrays(arrays, checkpoint.arrays, step.model.backend, str(checkpoint.path))
        step.optimizer.t = checkpoint.step
    return Prepared(assembled, number, step.step_number)
