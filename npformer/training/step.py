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

Where the backend has several threads, each takes some rows of the micro-batch through forward and
backward, with gradients of its own; their sum is the micro-batch's, by the same formula. What a thread does
with its rows may be recorded, too.

A model with BatchNorm is another matter: its rows look at each other, so threads do not share them, and
a micro-batch is normalised by its own statistics alone, so that accumulate changes what is computed. What
its norms saw is remembered when the update is made, one micro-batch after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import ConfigError, DeviceMemoryError
from npformer.functional.arrays import namespace
from npformer.layers import RandomKey
from npformer.layers.batch_norm import Statistics, statistics_in
from npformer.models import Model
from npformer.models.inputs import checked_batch
from npformer.models.twin import Attributes, Twins
from npformer.optim import Adam, Rates, Schedule, clip_by_global_norm
from npformer.typing import Array


class Given(NamedTuple):
    """All that one step has and another has not: numbers of the host, or what a backend made of them."""

    number: int | Array  # of the step, from 0: it decides dropout's masks
    rates: Rates | Array  # of Adam
    shares: list[list[tuple[slice, float | Array]]]  # of each micro-batch: rows of each thread's part, and n_i/N
    inputs: tuple[Array, ...]  # of the model, (B, T) each
    targets: Array  # (B, T), or (B,): one for each row


class Part(NamedTuple):
    """What a thread has to do, and with what numbers."""

    number: int | Array  # of the step
    micro: int | Array  # of the micro-batch
    share: float | Array  # of the loss of these rows in the batch's
    rows: slice  # of the micro-batch
    inputs: tuple[Array, ...]  # these rows of them
    targets: Array


class TrainStep:
    """Trains model by optimizer; call it with a batch. See the module's docstring.

    A target of pad_id does not count, whatever the model, so classes are numbered from 1 where it is 0.
    schedule (step -> rate) overrides optimizer.lr; clip_norm None means no clipping. seed, with the
    step, decides all dropout masks. Raises ConfigError for options that make no sense.
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
        if optimizer.arena is not model.arena:
            raise ConfigError("optimizer: expected one over model.arena, got one of another model; it would train that")
        if accumulate < 1:
            raise ConfigError(f"accumulate: expected an integer >= 1, got {accumulate}")
        if clip_norm is not None and not clip_norm > 0:
            raise ConfigError(f"clip_norm: expected a number > 0 or None, got {clip_norm}")
        if not 0 <= label_smoothing < 1:
            raise ConfigError(f"label_smoothing: expected 0 <= label_smoothing < 1, got {label_smoothing}")
        self.model = model
        self.optimizer = optimizer
        self.seed = seed
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.schedule = schedule
        self.accumulate = accumulate
        self.grad_norm: Array | None = None  # of the last step, before clipping; None without clipping
        self._twins = Twins(model)  # one for each further thread
        self._models: list[Model] = [model]  # each thread's
        self._attributes = Attributes(model)
        # none of them bound methods: that would make a cycle, and keep the twins' memory for who knows how long
        self._compute = model.backend.capture(TrainStep._compute_updates, TrainStep._baked)
        self._seen: list[Any] = []  # what baked says in this step
        self._compute_part = [
            model.backend.capture_part(partial(TrainStep._backpropagate, thread), TrainStep._baked_now)
            for thread in range(model.backend.threads)
        ]

    @property
    def step_number(self) -> int:
        """How many steps have been made."""
        return self.optimizer.t

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        return self._rate_of(self.optimizer.t + 1)

    def _rate_of(self, step: int) -> float:
        """The rate of a step, counted from 1."""
        return self.optimizer.lr if self.schedule is None else self.schedule(step)

    def __call__(self, *batch: Array) -> Array:
        """Train on a batch of ids, the model's inputs and then its targets, as model.config.batch lists them.

        For a Transformer: src (B, S), tgt_in and tgt_out (B, T). For the others: tokens (B, T) and targets,
        (B,) if whole rows are classified, else (B, T). Returns the mean loss per counted target before the
        update, a fresh scalar on the device: float(loss) waits for it. Raises ShapeError, DTypeError or
        TokenError for bad ids, and then nothing has changed.
        """
        loss, self.grad_norm = self._make([self._given(batch, 0)])
        return loss

    def many(self, batches: Iterable[Sequence[Array]]) -> Array:
        """Train on several batches in turn, as so many calls would; where it pays, all in one launch.

        Returns their losses, one after the other (k,). Raises what a call raises; for bad ids, before any step.
        """
        given = [self._given(batch, ahead) for ahead, batch in enumerate(batches)]
        if not given:
            raise ConfigError("batches: expected at least one, got none")
        losses, self.grad_norm = self._make(given)
        return losses if len(given) > 1 else namespace(losses).reshape(losses, (1,))

    def _given(self, batch: Sequence[Array], ahead: int) -> Given:
        """The batch, checked, and the numbers of the step that comes after so many others."""
        found = checked_batch(self.model.config.batch, batch, self.model.backend)
        *inputs, targets = (x.astype(np.int64, copy=False) for x in found)  # narrow integers would overflow
        number = self.step_number + ahead
        rates = self.optimizer.rates(self._rate_of(number + 1), number + 1)
        return Given(number, rates, self._shares(targets), tuple(inputs), targets)

    def _make(self, given: list[Given]) -> tuple[Array, Array | None]:
        """Make these steps. Returns what ``_compute_updates`` returns; counts them."""
        before = self.step_number
        try:
            found: tuple[Array, Array | None] = self._compute(self, given)
        except DeviceMemoryError as error:
            if self.step_number != before:
                raise MemoryError(
                    f"{error}; an update was begun and not finished, so this model is of no use"
                ) from None
            raise DeviceMemoryError(f"{error}. {self._what_fits(given)}") from None
        if self.step_number == before:  # the device's Adam does not count; the host's does, in its step
            self.optimizer.t += len(given)
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
            optimizer.weight_decay, optimizer.m, optimizer.v, self.model.arena.segments, self._attributes.now(),
        ]  # fmt: skip

    def _baked_now(self) -> list[Any]:
        """The same for a part, which need not ask again in each thread."""
        return self._seen

    def _shares(self, targets: np.ndarray[Any, Any]) -> list[list[tuple[slice, float]]]:
        """For each micro-batch, for each thread's part of it, its rows of the batch and n_i/N."""
        threads = 1 if self._is_together() else self.model.backend.threads
        total = max(1, self._count(targets))
        return [
            [(rows, self._count(targets[rows]) / total) for rows in _split(micro, threads)]
            for micro in _split(slice(0, targets.shape[0]), self.accumulate)
        ]

    def _count(self, targets: np.ndarray[Any, Any]) -> int:
        """How many of them count."""
        return int(np.count_nonzero(targets != self.model.config.pad_id))

    def _is_together(self) -> bool:
        """Whether the rows of a micro-batch look at each other."""
        return self.model.config.norm == "batch"

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
        self._seen = self._baked()
        losses = []
        for micro, shares in enumerate(given.shares):
            first = shares[0][0].start
            parts = []
            for rows, share in shares:
                *inputs, targets = (x[rows, ...] for x in batch)
                own = slice(rows.start - first, rows.stop - first)
                parts.append(Part(given.number, micro, share, own, tuple(inputs), targets))
            losses += self._accumulate(parts, seen)
        return (sum(losses[1:], start=losses[0]),)

    def _accumulate(self, parts: list[Part], seen: list[Statistics] | None) -> list[Array]:
        """Add the gradients of a micro-batch's parts, each times its share; returns their shares of the loss."""
        if self._is_together():
            return [part.share * self._backpropagate(0, self, part, seen)[0] for part in parts]
        self._models = [self.model, *self._twins.first(len(parts) - 1)]
        losses: list[Array] = [None] * len(parts)

        def work(i: int) -> None:
            if i > 0:
                self._models[i].arena.zero_grad()
            (loss,) = self._compute_part[i](self, parts[i])
            losses[i] = parts[i].share * loss

        self.model.backend.together([partial(work, i) for i in range(len(parts))])
        for twin in self._models[1:]:
            self.model.arena.add_gradients(twin.arena)
        return losses

    @staticmethod
    def _backpropagate(thread: int, step: TrainStep, part: Part, seen: list[Statistics] | None = None) -> tuple[Array]:
        """Add share × the gradient of these rows' mean loss to this thread's model's; returns that loss."""
        model = step._models[thread]
        cross_entropy = model.ops.cross_entropy
        key = RandomKey(step.seed, part.number, part.micro, first_row=part.rows.start)
        logits, cache = model.forward(*part.inputs, key=key, checked=True)
        loss, loss_cache = cross_entropy.forward(logits, part.targets, model.config.pad_id, step.label_smoothing)
        if seen is not None:
            seen += statistics_in(cache)
        model.backward(cross_entropy.backward(part.share, loss_cache), cache)
        return (loss,)


def _split(rows: slice, parts: int) -> list[slice]:
    """rows in at most so many slices of one size, the last perhaps smaller."""
    size = -(-(rows.stop - rows.start) // parts)
    return [slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)]
