"""One training step: forward, loss, backward, clipping, update.

A batch may be split into ``accumulate`` micro-batches along B, to need less memory. Each one's
loss is a mean over its own n_i counted tokens; the batch's loss is the mean over all N of them,

    loss = Σ_i (n_i/N)·loss_i

so n_i/N is the gradient that enters each backward, and the sum of the gradients is that of the
whole batch, however the padding is spread. (Averaging the micro-batches' means instead would let a
token in a padded micro-batch weigh more.) N is counted on the host, where batches come from.

Where the backend has several threads, each takes some rows of the micro-batch through forward and
backward, with gradients of its own; their sum is the micro-batch's, by the same formula.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from npformer.errors import ConfigError, ShapeError
from npformer.layers import RandomKey
from npformer.models import Transformer
from npformer.models.inputs import token_ids
from npformer.models.twin import Twins
from npformer.optim import Adam, Schedule, clip_by_global_norm
from npformer.typing import Array


class TrainStep:
    """Trains model by optimizer; call it with a batch. See the module's docstring.

    schedule (step -> rate) overrides optimizer.lr; clip_norm None means no clipping. seed, with the
    step, decides all dropout masks. Raises ConfigError for options that make no sense.
    """

    def __init__(
        self,
        model: Transformer,
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
        # not a bound method: that would make a cycle, and keep the twins' memory for who knows how long
        self._update = model.backend.capture(TrainStep._compute_update)

    @property
    def step_number(self) -> int:
        """How many steps have been made."""
        return self.optimizer.t

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        return self.optimizer.lr if self.schedule is None else self.schedule(self.optimizer.t + 1)

    def __call__(self, src: Array, tgt_in: Array, tgt_out: Array) -> Array:
        """Train on src (B, S), tgt_in and tgt_out (B, T), token ids.

        Returns the mean loss per counted token before the update, a fresh scalar on the device:
        float(loss) waits for it. Raises ShapeError, DTypeError or TokenError for bad ids, and then
        nothing has changed.
        """
        config, backend = self.model.config, self.model.backend
        arrays = (
            token_ids("src", src, config.src_vocab_size, backend),
            token_ids("tgt_in", tgt_in, config.tgt_vocab_size, backend),
            token_ids("tgt_out", tgt_out, config.tgt_vocab_size, backend),
        )
        if arrays[1].shape != arrays[2].shape or arrays[0].shape[0] != arrays[1].shape[0]:
            raise ShapeError(
                "src, tgt_in, tgt_out: expected (B, S), (B, T), (B, T), got "
                + ", ".join(str(tuple(x.shape)) for x in arrays)
            )
        targets = backend.host(tgt_out) if backend.device.owns(tgt_out) else np.asarray(tgt_out)
        return self._update(self, *arrays, self._shares(targets, self.accumulate))

    def _shares(self, targets: np.ndarray[Any, Any], parts: int) -> list[tuple[slice, float]]:
        """For each of so many parts of a batch its rows and n_i/N."""
        rows = targets.shape[0]
        size = -(-rows // parts)
        slices = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
        counts = [int(np.count_nonzero(targets[part] != self.model.config.pad_id)) for part in slices]
        total = max(1, sum(counts))
        return [(part, count / total) for part, count in zip(slices, counts, strict=True)]

    def _compute_update(self, src: Array, tgt_in: Array, tgt_out: Array, shares: list[tuple[slice, float]]) -> Array:
        self.model.arena.zero_grad()
        key = RandomKey(self.seed, self.step_number)
        loss = self.model.backend.zeros(())
        for micro, (rows, share) in enumerate(shares):
            micro_key = RandomKey(key.seed, key.step, micro)
            loss = loss + share * self._accumulate(src[rows, :], tgt_in[rows, :], tgt_out[rows, :], share, micro_key)
        if self.clip_norm is not None:
            self.grad_norm = clip_by_global_norm(self.model.arena, self.clip_norm)
        self.optimizer.step(self.learning_rate)
        return loss

    def _accumulate(self, src: Array, tgt_in: Array, tgt_out: Array, share: float, key: RandomKey) -> Array:
        """Add share × the gradient of this micro-batch's mean loss; returns that loss."""
        threads = self.model.backend.threads
        if threads == 1:
            return self._backpropagate(self.model, src, tgt_in, tgt_out, share, key)
        parts = self._shares(tgt_out, threads)
        twins = self._twins.first(len(parts) - 1)
        models = [self.model, *twins]
        losses: list[Array] = [None] * len(parts)

        def work(i: int) -> None:
            (rows, fraction), model = parts[i], models[i]
            if i > 0:
                model.arena.zero_grad()
            part_key = replace(key, first_row=rows.start)
            batch = (src[rows, :], tgt_in[rows, :], tgt_out[rows, :])
            losses[i] = fraction * self._backpropagate(model, *batch, share * fraction, part_key)

        self.model.backend.together([partial(work, i) for i in range(len(parts))])
        for twin in twins:
            self.model.arena.add_gradients(twin.arena)
        return sum(losses[1:], start=losses[0])

    def _backpropagate(
        self, model: Transformer, src: Array, tgt_in: Array, tgt_out: Array, share: float, key: RandomKey
    ) -> Array:
        """Add share × the gradient of these rows' mean loss to model's; returns that loss."""
        cross_entropy = model.ops.cross_entropy
        logits, cache = model.forward(src, tgt_in, key=key)
        loss, loss_cache = cross_entropy.forward(logits, tgt_out, model.config.pad_id, self.label_smoothing)
        model.backward(cross_entropy.backward(share, loss_cache), cache)
        return loss
