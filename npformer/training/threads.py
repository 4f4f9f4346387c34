"""Threads that share a micro-batch: each takes some rows through forward, loss and backward.

Each has gradients of its own; their sum is the micro-batch's, by the formula in ``step.py``. What a thread
does with its rows the backend may record, to do it again without Python between the operations.

A model with BatchNorm is another matter: its rows look at each other, so threads do not share them, and
a micro-batch is normalised by its own statistics alone, so that accumulate changes what is computed. What
its norms saw is remembered when the update is made, one micro-batch after the other.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from npformer.layers import RandomKey
from npformer.layers.batch_norm import BatchNorm, Statistics, statistics_in
from npformer.models import Model
from npformer.models.twin import Twins
from npformer.typing import Array


class Part(NamedTuple):
    """What one thread has to do."""

    number: int | Array  # of the step
    micro: int | Array  # of the micro-batch
    share: float | Array  # of the loss of these rows in the batch's, n_i/N
    rows: slice  # of the micro-batch
    batch: tuple[Array, ...]  # these rows of the model's inputs and targets


class Rule(NamedTuple):
    """What a step does, whatever its batch."""

    seed: int
    label_smoothing: float
    baked: list[Any]  # all that it depends on


class Threads:
    """The backend's threads, each with the model or a twin of it."""

    def __init__(self, model: Model) -> None:
        self._models = [model]
        self._twins = Twins(model)
        self._rule = Rule(0, 0.0, [])
        self.look()
        # not bound methods: that would make a cycle, and keep the twins' memory for who knows how long
        self.computes = [
            model.backend.capture_part(partial(_backpropagate, thread), _baked)
            for thread in range(model.backend.threads)
        ]

    def look(self) -> None:
        """See what the model is made of."""
        model = self._models[0]
        self._is_together = any(isinstance(each, BatchNorm) for each in model.all_layers())  # rows look at each other
        self.may_record = model.repeats_itself()

    def parts_of(self, tokens: int) -> int:
        """Into how many parts to cut a micro-batch with so many tokens in the longest of its inputs."""
        model = self._models[0]
        parts = 1 if self._is_together else model.backend.parts_of(tokens * model.config.d_model)
        return min(parts, len(self.computes))  # the model may have another backend by now

    def backpropagate(self, rule: Rule, parts: list[Part], seen: list[Statistics] | None) -> list[Array]:
        """Add the gradients of a micro-batch's parts, each times its share; returns their shares of the loss.

        seen, if given, gets what every BatchNorm saw.
        """
        self._rule, model = rule, self._models[0]
        if self._is_together:
            return [part.share * _backpropagate(0, self, part, seen)[0] for part in parts]
        self._models = [model, *self._twins.first(len(parts) - 1)]
        losses: list[Array] = [None] * len(parts)

        def work(i: int) -> None:
            if i > 0:
                self._models[i].arena.zero_grad()
            compute = self.computes[i] if self.may_record else partial(_backpropagate, i)
            (loss,) = compute(self, parts[i])
            losses[i] = parts[i].share * loss

        model.backend.together([partial(work, i) for i in range(len(parts))])
        for twin in self._models[1:]:
            model.arena.add_gradients(twin.arena)
        return losses


def _baked(threads: Threads) -> list[Any]:
    """What a record of a part depends on: asked once for all threads, when the step begins."""
    return threads._rule.baked


def _backpropagate(thread: int, threads: Threads, part: Part, seen: list[Statistics] | None = None) -> tuple[Array]:
    """Add share × the gradient of these rows' mean loss to this thread's model's; returns that loss."""
    model, rule = threads._models[thread], threads._rule
    cross_entropy = model.ops.cross_entropy
    *inputs, targets = part.batch
    first = part.rows.start
    key = RandomKey(rule.seed, part.number, part.micro, first_row=first)
    logits, cache = model.forward(*inputs, key=key, checked=True)
    loss, loss_cache = cross_entropy.forward(logits, targets, model.config.pad_id, rule.label_smoothing)
    if seen is not None:
        seen += statistics_in(cache)
    model.backward(cross_entropy.backward(part.share, loss_cache), cache)
    return (loss,)
