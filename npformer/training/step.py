"""One training step: forward, loss, backward, clipping, update.

A batch may be split into ``accumulate`` micro-batches along B, to need less memory. Each one's
loss is a mean over its own n_i counted tokens; the batch's loss is the mean over all N of them,

    loss = Σ_i (n_i/N)·loss_i

so n_i/N is the gradient that enters each backward, and the sum of the gradients is that of the
whole batch, however the padding is spread. (Averaging the micro-batches' means instead would let a
token in a padded micro-batch weigh more.) N is counted on the host, where batches come from.

A step checks once that every parameter of the model will be trained, and again when a part has been replaced, which
gives the model a new version. It refuses a parameter that is not in the arena.

``backpropagate`` and ``update`` (``training/descent.py``) do the work: the latter clips the gradients by their norm if
clip_norm says so (``optim/clip.py``), updates the parameters (``optim/adam.py``), and lets BatchNorm remember the
statistics of the batch.

Threads, a recording or a CUDA graph make the same step faster: the backend's engine says whether the model allows it
(``training/runner.py``), and calls the same two functions with the step's ``settings``.

Ctrl-C stops no update in the middle (``training/held_interrupt.py``; ``run/signals.py`` says what it does to a run).
Parameters, moments and running statistics always belong to the same ``step_number``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from itertools import pairwise
from operator import is_
from typing import Any

import numpy as np

from npformer.errors import ConfigError, whole_number
from npformer.layers.batch_norm import BatchNorm, Statistics
from npformer.layers.owner import version_of
from npformer.models import Model
from npformer.models.inputs import checked_batch
from npformer.optim import Adam, Schedule
from npformer.training.descent import Settings, StepInputs, backpropagate, shards_of, update
from npformer.training.held_interrupt import HeldInterrupt
from npformer.typing import Array, HostArray


class TrainStep:
    """Trains model by optimizer; call it with a batch. See the module's docstring.

    A target of pad_id does not count, whatever the model, so classes are numbered from 1 where it is 0.
    schedule (step -> rate) overrides optimizer.lr. With clip_norm None or infinity nothing is clipped; with infinity
    the norm is still measured. seed, with the step, decides all dropout masks. slots, a power of two: each micro-batch
    is cut into so many ranges of rows, and the bits are the same for any number of threads and ranks
    (``training/slots.py``). ranks is a communicator (``engine/communicator.py``), None for one process; with
    shard_optimizer each keeps a part of the moments. Raises ConfigError for options that make no sense, and for a
    parameter that is not in model.arena, then or later.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Adam,
        *,
        seed: int = 0,
        label_smoothing: float = 0.0,
        clip_norm: float | None = None,
        schedule: Schedule | None = None,
        accumulate: int = 1,
        slots: int = 1,
        ranks: Any = None,
        shard_optimizer: bool = False,
    ) -> None:
        for name, value, least in (("accumulate", accumulate, 1), ("seed", seed, 0), ("slots", slots, 1)):
            whole_number(name, value, at_least=least)
        if clip_norm is not None and not clip_norm > 0:
            raise ConfigError(f"clip_norm: expected a number > 0 or None, got {clip_norm}")
        if not 0 <= label_smoothing < 1:
            raise ConfigError(f"label_smoothing: expected 0 <= label_smoothing < 1, got {label_smoothing}")
        self.model: Model = model
        self.optimizer: Adam = optimizer
        self.seed = seed
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.schedule = schedule
        self.accumulate = accumulate
        self.slots = slots
        self.ranks = None if ranks is None or ranks.size == 1 else ranks
        self.shard_optimizer = shard_optimizer
        self.stop_signal = 0  # what this rank tells with its next step
        self.latest_stop_signal = 0  # the largest that was told with the last
        self.grad_norm: Array | None = None  # of the last step, before clipping; None without clipping
        self.interrupt = HeldInterrupt()
        self._checked: tuple[Any, ...] = (None, None, None)  # model version, optimizer and segments at the last check
        self._expect_trainable()
        self.runner: Any = self._runner()  # None: steps are made as they are written here

    def __repr__(self) -> str:
        return f"<TrainStep: {type(self.model).__name__}, {self.optimizer!r}>"

    @property
    def step_number(self) -> int:
        """How many steps have been made."""
        return self.optimizer.t

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        return self._rate_of(self.optimizer.t + 1)

    def __call__(self, *batch: Array) -> Array:
        """Train on a batch of ids, the model's inputs and then its targets, as model.config.batch lists them.

        For a Transformer: src (B, S), tgt_in and tgt_out (B, T). For the others: tokens (B, T) and targets,
        (B,) if whole rows are classified, else (B, T). Returns the mean loss per counted target before the
        update, a fresh scalar on the device: float(loss) waits for it. Raises ShapeError, DTypeError or
        TokenError for bad ids, and then nothing has changed.
        """
        self._expect_trainable()
        inputs = self._inputs_of(batch, self.step_number)
        if self.runner is not None:  # the same, by threads, from a record or on a GPU
            loss, self.grad_norm = self.runner.make(self, inputs)
            return loss
        return self._make(inputs)

    def _make(self, inputs: StepInputs) -> Array:
        """The step as it is written. Returns the loss ()."""
        with self.interrupt:
            self.model.arena.zero_grad()
            settings, losses = self.settings(), []
            seen: list[Statistics] | None = [] if self._has_batch_norm else None
            for (shard,) in shards_of(inputs, self.model.backend):  # one for each micro-batch: only threads split more
                losses.append(shard.share * backpropagate(self.model, settings, shard, seen))  # forward, loss, backward
            self.grad_norm = update(settings, inputs.rates, seen or [], self.interrupt)  # clip, update
        return sum(losses[1:], start=losses[0])

    def scatter(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        """As map does; each rank makes some of the results, which are plain numbers and texts."""
        return map(work, items) if self.slots == 1 else self.runner.scatter(work, items)

    def gather_gradient(self) -> None:
        """Bring the last step's gradient into the arena, if with a sharded optimiser other ranks have parts of it."""
        if self.shard_optimizer and self.slots > 1:
            self.runner.gather_gradient(self.model.arena)

    def _runner(self) -> Any:
        """What makes steps with the backend's engine. Raises ConfigError if these slots or ranks make no sense."""
        engine, by_slots = self.model.backend.engine, self.slots > 1 or self.ranks is not None
        if self.slots & (self.slots - 1):
            raise ConfigError(f"slots: expected a power of two, got {self.slots}")
        if engine is None and by_slots:
            raise ConfigError(
                "kernels: expected numpy, numba or cuda for slots and for several processes, got plain on one thread, "
                "whose step runs as it is written; take others, or several threads"
            )
        if engine is None:
            return None
        from npformer.training import runner, slots  # plain steps need neither them nor an engine

        if by_slots:
            return slots.SlotRunner(self.model, self.slots, self.ranks, self.shard_optimizer)
        return runner.runner_for(self.model)

    def settings(self) -> Settings:
        """What a step does, whatever its batch."""
        optimizer = self.optimizer
        return Settings(
            self.seed, self.label_smoothing, self.clip_norm, optimizer, optimizer.betas, optimizer.eps,
            optimizer.weight_decay, optimizer.m, optimizer.v, self.model.arena.segments, version_of(self.model),
        )  # fmt: skip

    def _inputs_of(self, batch: Sequence[Array], number: int) -> StepInputs:
        """The batch, checked, with the numbers of its step."""
        ids = checked_batch(self._ids, batch, self.model.backend)
        *inputs, targets = (x.astype(np.int64, copy=False) for x in ids)  # narrow integers would overflow
        rates = self.optimizer.rates(self._rate_of(number + 1), number + 1)
        return StepInputs(number, rates, self._shares(inputs, targets), tuple(inputs), targets)

    def _rate_of(self, step: int) -> float:
        """The rate of a step, counted from 1. Raises ConfigError if it is not a rate."""
        lr: Any = self.optimizer.lr if self.schedule is None else self.schedule(step)
        try:
            rate = math.nan if isinstance(lr, str) else float(lr)
        except (TypeError, ValueError):
            rate = math.nan
        if not 0 <= rate < math.inf:
            name = "optimizer.lr" if self.schedule is None else "schedule"
            raise ConfigError(f"{name}: expected a finite rate >= 0 for step {step}, got {lr!r}")
        return rate

    def _shares(self, inputs: Sequence[HostArray], targets: HostArray) -> list[list[tuple[slice, float]]]:
        """A list for each micro-batch: in it (rows, n_i/N) for each shard, or for all its rows without threads."""
        total = max(1, self._count(targets))
        parts = [[micro] for micro in _split(slice(0, targets.shape[0]), self.accumulate)]
        if self.slots > 1:
            parts = [_in_slots(micro, self.slots) for (micro,) in parts]
        elif self.runner is not None:
            longest = max(x.shape[1] for x in inputs)
            parts = [
                _split(micro, self.runner.shards.count_for((micro.stop - micro.start) * longest)) for (micro,) in parts
            ]
        return [[(rows, self._count(targets[rows]) / total) for rows in some] for some in parts]

    def _count(self, targets: HostArray) -> int:
        """How many of them count."""
        return int(np.count_nonzero(targets != self.model.config.pad_id))

    def _expect_trainable(self) -> None:
        """Raise ConfigError if a parameter would not be trained; looked at once for each version of the model."""
        model, optimizer = self.model, self.optimizer
        now = (version_of(model), optimizer, model.arena.segments)
        if now[0] != self._checked[0] or not all(map(is_, now, self._checked)):
            if optimizer.arena is not model.arena:
                raise ConfigError(
                    "optimizer: expected one over model.arena, got one of another model; it would train that"
                )
            model.arena.expect_all(model.owned_parameters())
            self._ids = model.config.batch
            self._has_batch_norm = any(isinstance(layer, BatchNorm) for layer in model.all_layers())
            if self._has_batch_norm and self.slots > 1:
                raise ConfigError(
                    f"slots: expected 1 for a model with BatchNorm, got {self.slots}: its rows depend on each other, "
                    "and a slot would be normalised by its own rows alone; use layer norm, or one slot"
                )
            self._checked = now

    def __deepcopy__(self, memo: dict[int, Any]) -> TrainStep:
        """One that trains the model's copy by the optimiser's, from here on."""
        memo[id(self)] = other = copy(self)
        other.model, other.optimizer, other.grad_norm = deepcopy((self.model, self.optimizer, self.grad_norm), memo)
        other.interrupt, other.runner = HeldInterrupt(), other._runner()
        return other


def _in_slots(rows: slice, slots: int) -> list[slice]:
    """rows in so many slices, as even as can be; with fewer rows than slots some are empty."""
    edges = [rows.start + (rows.stop - rows.start) * i // slots for i in range(slots + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _split(rows: slice, parts: int) -> list[slice]:
    """rows in at most so many slices of one size, the last perhaps smaller."""
    size = -(-(rows.stop - rows.start) // parts)
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]
