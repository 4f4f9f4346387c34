"""One training step: forward, loss, backward, clipping, update.

A batch may be split into ``accumulate`` micro-batches along B, to need less memory. Each one's
loss is a mean over its own n_i counted tokens; the batch's loss is the mean over all N of them,

    loss = Σ_i (n_i/N)·loss_i

so n_i/N is the gradient that enters each backward, and the sum of the gradients is that of the
whole batch, however the padding is spread. (Averaging the micro-batches' means instead would let a
token in a padded micro-batch weigh more.) N is counted on the host, where batches come from.

What changes from step to step (the step's number, the learning rate, the shares n_i/N) is decided on the
host and handed on beside the batch, so a backend may record the rest once, and put the numbers where the
record reads them.

Ctrl-C never tears a step: it is obeyed before an update or after it (``signals.HeldInterrupt``), a second one at
once, unless an update is being made. Parameters, moments and running statistics are those that ``step_number`` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from numbers import Integral
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import ConfigError, DeviceMemoryError
from npformer.functional.arrays import namespace
from npformer.layers.batch_norm import Statistics
from npformer.models import Model
from npformer.models.ahead import compile_ahead
from npformer.models.inputs import checked_batch
from npformer.models.twin import Attributes
from npformer.optim import Adam, Rates, Schedule, clip_by_global_norm
from npformer.training.signals import HeldInterrupt
from npformer.training.threads import Part, Rule, Threads
from npformer.typing import Array


class Given(NamedTuple):
    """All that one step has and another has not: numbers of the host, or what a backend made of them."""

    number: int | Array  # of the step, from 0: it decides dropout's masks
    rates: Rates | Array  # of Adam
    shares: list[list[tuple[slice, float | Array]]]  # of each micro-batch: rows of each thread's part, and n_i/N
    inputs: tuple[Array, ...]  # of the model, (B, T) each
    targets: Array  # (B, T), or (B,): one for each row


class TrainStep:
    """Trains model by optimizer; call it with a batch. See the module's docstring.

    A target of pad_id does not count, whatever the model, so classes are numbered from 1 where it is 0.
    schedule (step -> rate) overrides optimizer.lr; clip_norm None means no clipping, infinity that the norm is taken
    and nothing clipped. seed, with the step, decides all dropout masks. Raises ConfigError for options that make no
    sense, and for a parameter that is not in model.arena, then or later.
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
    ) -> None:
        self._expect_own_arena(optimizer, model)
        for name, value, least in (("accumulate", accumulate, 1), ("seed", seed, 0)):
            _expect_whole(name, value, least)
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
        self.grad_norm: Array | None = None  # of the last step, before clipping; None without clipping
        self._threads = Threads(model)
        self._attributes = Attributes(model)
        self._made_of: list[Any] = []
        self._settings: tuple[Any, ...] = (None, None)
        self._interrupt = HeldInterrupt()
        self._look()
        # not bound methods: that would make a cycle, and keep the twins' memory for who knows how long
        self._compute = model.backend.capture(TrainStep._compute_updates, TrainStep._baked)
        compile_ahead(model, "training")

    @property
    def step_number(self) -> int:
        """How many steps have been made."""
        return self.optimizer.t

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        return self._rate_of(self.optimizer.t + 1)

    def _rate_of(self, step: int) -> float:
        """The rate of a step, counted from 1. Raises ConfigError if it is none."""
        given: Any = self.optimizer.lr if self.schedule is None else self.schedule(step)
        try:
            rate = math.nan if isinstance(given, str) else float(given)
        except (TypeError, ValueError):
            rate = math.nan
        if not 0 <= rate < math.inf:
            name = "optimizer.lr" if self.schedule is None else "schedule"
            raise ConfigError(f"{name}: expected a finite rate >= 0 for step {step}, got {given!r}")
        return rate

    def __deepcopy__(self, memo: dict[int, Any]) -> TrainStep:
        """One that trains the model's copy by the optimiser's, from here on."""
        model, optimizer = deepcopy((self.model, self.optimizer), memo)
        memo[id(self)] = other = type(self)(
            model, optimizer, seed=self.seed, label_smoothing=self.label_smoothing, clip_norm=self.clip_norm,
            schedule=self.schedule, accumulate=self.accumulate,
        )  # fmt: skip
        other.grad_norm = deepcopy(self.grad_norm)
        return other

    def __call__(self, *batch: Array) -> Array:
        """Train on a batch of ids, the model's inputs and then its targets, as model.config.batch lists them.

        For a Transformer: src (B, S), tgt_in and tgt_out (B, T). For the others: tokens (B, T) and targets,
        (B,) if whole rows are classified, else (B, T). Returns the mean loss per counted target before the
        update, a fresh scalar on the device: float(loss) waits for it. Raises ShapeError, DTypeError or
        TokenError for bad ids, and then nothing has changed.
        """
        self._look()
        loss, self.grad_norm = self._make([self._given(batch, 0)])
        return loss

    def many(self, batches: Iterable[Sequence[Array]]) -> Array:
        """Train on several batches in turn, as so many calls would; where it pays, all in one launch.

        Returns their losses, one after the other (k,). Raises what a call raises; for bad ids, before any step.
        """
        self._look()
        given = [self._given(batch, ahead, copy=True) for ahead, batch in enumerate(batches)]
        if not given:
            raise ConfigError("batches: expected at least one, got none")
        losses, self.grad_norm = self._make(given)
        return losses if len(given) > 1 else namespace(losses).reshape(losses, (1,))

    def _given(self, batch: Sequence[Array], ahead: int, *, copy: bool = False) -> Given:
        """The batch, checked, and the numbers of the step that comes after so many others.

        copy: the step comes later, and the caller may have written another batch to the same arrays by then.
        """
        found = checked_batch(self.model.config.batch, batch, self.model.backend)
        *inputs, targets = (x.astype(np.int64, copy=copy) for x in found)  # narrow integers would overflow
        number = self.step_number + ahead
        rates = self.optimizer.rates(self._rate_of(number + 1), number + 1)
        return Given(number, rates, self._shares(inputs, targets), tuple(inputs), targets)

    def _make(self, given: list[Given]) -> tuple[Array, Array | None]:
        """Make these steps, all of them or the first ones. Returns what ``_compute_updates`` returns; counts them."""
        before = self.step_number
        try:
            with self._interrupt:
                if self.model.backend.updates is None:
                    return self._compute_as_recorded(given)
                with self._interrupt.firmly():  # one launch updates, too, and its Adam does not count
                    found = self._compute_as_recorded(given)
                    if self.step_number == before:
                        self.optimizer.t += len(given)
                return found
        except DeviceMemoryError as error:
            if self.step_number != before:
                raise MemoryError(f"{error}; an update was begun and not finished: this model is of no use") from None
            raise DeviceMemoryError(f"{error}. {self._what_fits(given)}") from None

    def _compute_as_recorded(self, given: list[Given]) -> tuple[Array, Array | None]:
        """``_compute_updates``, captured where that may be."""
        compute: Any = self._compute if self._threads.may_record else TrainStep._compute_updates
        found: tuple[Array, Array | None] = compute(self, given)
        return found

    def _what_fits(self, given: list[Given]) -> str:
        """Advice from trying ever fewer rows, without an update."""
        if len(given) > 1:
            return f"Make fewer than {len(given)} steps at once"
        _, _, shares, inputs, targets = given[0]
        size = targets.shape[0]
        rows = max(parts[-1][0].stop - parts[0][0].start for parts in shares) // 2
        while rows >= 1:
            some = tuple(x[:rows] for x in inputs)
            fewer = Given(0, Rates(0.0, 1.0, 1.0), [[(slice(0, rows), 1.0)]], some, targets[:rows])
            try:
                self.model.backend.capture(TrainStep._compute_gradients, TrainStep._baked)(self, fewer)
            except DeviceMemoryError:
                rows //= 2
                continue
            parts = -(-size // rows)
            return (
                f"batch_size: {size} sequences as long as these do not fit, {rows} were tried and do: make it {rows}, "
                f"or keep it and set accumulate={parts}, which computes the same in {parts} parts"
            )
        return "Not even one sequence of this batch fits: make the model smaller, or its sequences shorter"

    def _baked(self) -> list[Any]:
        """What a step depends on beside Given: a record of one step is no good once any of it has changed."""
        optimizer = self.optimizer
        return [
            self.seed, self.label_smoothing, self.clip_norm, optimizer, optimizer.betas, optimizer.eps,
            optimizer.weight_decay, optimizer.m, optimizer.v, self.model.arena.segments, self._made_of,
        ]  # fmt: skip

    def _look(self) -> None:
        """See whether a layer or parameter has been replaced; raises ConfigError if one would not be trained."""
        now, settings = self._attributes.now(), (self.optimizer, self.model.arena.segments)
        if now is not self._made_of or not all(map(is_, settings, self._settings)):
            self._expect_own_arena(self.optimizer, self.model)
            self.model.arena.expect_all(self.model.owned_parameters())
            self._threads.look()
            self._made_of, self._settings = now, settings

    @staticmethod
    def _expect_own_arena(optimizer: Adam, model: Model) -> None:
        if optimizer.arena is not model.arena:
            raise ConfigError("optimizer: expected one over model.arena, got one of another model; it would train that")

    def _shares(
        self, inputs: Sequence[np.ndarray[Any, Any]], targets: np.ndarray[Any, Any]
    ) -> list[list[tuple[slice, float]]]:
        """For each micro-batch, for each thread's part of it, its rows of the batch and n_i/N."""
        total = max(1, self._count(targets))
        micros = _split(slice(0, targets.shape[0]), self.accumulate)
        longest = max(x.shape[1] for x in inputs)
        parts = [_split(micro, self._threads.parts_of((micro.stop - micro.start) * longest)) for micro in micros]
        return [[(rows, self._count(targets[rows]) / total) for rows in some] for some in parts]

    def _count(self, targets: np.ndarray[Any, Any]) -> int:
        """How many of them count."""
        return int(np.count_nonzero(targets != self.model.config.pad_id))

    def _compute_updates(self, steps: list[Given]) -> tuple[Array, Array | None]:
        """The loss (), or of several steps the losses (k,), and the norm () of the last one's gradient, if taken."""
        if len(steps) == 1:
            return self._compute_update(steps[0])
        losses, norm = self.model.backend.zeros((len(steps),)), None
        for i, given in enumerate(steps):
            losses[i], norm = self._compute_update(given)
        return losses, norm

    def _compute_update(self, given: Given) -> tuple[Array, Array | None]:
        seen: list[Statistics] = []
        (loss,) = self._compute_gradients(given, seen)
        with self._interrupt.firmly():
            if isinstance(given.rates, Rates):
                norm = self._update(given.rates.lr)
            else:
                norm = self.optimizer.step_on_device(given.rates, self.clip_norm)
            for statistics in seen:
                statistics.norm.remember(statistics)
        return loss, norm

    def _update(self, lr: float) -> Array | None:
        """Clip and update, by numbers of the host. Returns the norm before clipping."""
        norm = None
        if self.clip_norm is not None:
            norm = clip_by_global_norm(self.model.arena, self.clip_norm)
        self.optimizer.step(lr)
        return norm

    def _compute_gradients(self, given: Given, seen: list[Statistics] | None = None) -> tuple[Array]:
        """The loss (). seen, if given, gets what every BatchNorm saw."""
        self.model.arena.zero_grad()
        on_device = self.model.backend.on_device
        batch = [on_device(x) for x in (*given.inputs, given.targets)]
        rule = Rule(self.seed, self.label_smoothing, self._baked())
        losses = []
        for micro, shares in enumerate(given.shares):
            first, parts = shares[0][0].start, []
            for rows, share in shares:
                own = slice(rows.start - first, rows.stop - first)
                parts.append(Part(given.number, micro, share, own, tuple(x[rows, ...] for x in batch)))
            losses += self._threads.backpropagate(rule, parts, seen)
        return (sum(losses[1:], start=losses[0]),)


def _expect_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or int(value) < least:
        raise ConfigError(f"{name}: expected an integer >= {least}, got {value!r}")


def _split(rows: slice, parts: int) -> list[slice]:
    """rows in at most so many slices of one size, the last perhaps smaller."""
    size = -(-(rows.stop - rows.start) // parts)
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]
