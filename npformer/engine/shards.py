"""Data parallelism over threads: each runs forward, loss and backward for one shard (some rows) of a micro-batch.

Each thread has a replica of the model with its own gradients. Their sum is the micro-batch's gradient, by the formula
in ``training/step.py``. The backend may record a thread's operations and replay them without Python.

A model with BatchNorm is not split: its rows depend on each other. Each micro-batch is normalised by its own
statistics, so accumulate changes the result. The running statistics are updated together with the parameters,
one micro-batch after the other.
"""

from __future__ import annotations

from functools import partial

from npformer.engine.capabilities import capabilities_of
from npformer.engine.replica import Replicas
from npformer.engine.static import has_own_ops, is_static
from npformer.layers.batch_norm import BatchNorm, Statistics
from npformer.layers.owner import version_of
from npformer.models import Model
from npformer.optim.step_inputs import Settings, Shard
from npformer.training.descent import backpropagate
from npformer.typing import Array


class Shards:
    """The backend's threads, each with the model or a replica of it."""

    def __init__(self, model: Model) -> None:
        self.replicas = Replicas(model)
        self._models = [model]
        self._settings: Settings  # of the step that is being made
        self._version = -1
        # not bound methods: the reference cycle would keep the replicas' memory until garbage collection
        self.computes = [
            capabilities_of(model).capture_part(partial(_compute, thread), _static_arguments)
            for thread in range(capabilities_of(model).threads)
        ]

    def look(self) -> None:
        """Examine the model's structure again if it has changed."""
        model = self._models[0]
        version = version_of(model)
        if version != self._version:
            self._version = version
            self._is_whole = any(isinstance(each, BatchNorm) for each in model.all_layers())  # rows depend on others
            self.may_record = is_static(model) and has_own_ops(model)

    def count_for(self, tokens: int) -> int:
        """The number of shards for a micro-batch with this many tokens in the longest of its inputs."""
        self.look()
        model = self._models[0]
        count = 1 if self._is_whole else capabilities_of(model).parts_of(tokens * model.config.d_model)
        return min(count, len(self.computes))  # the model's backend may have been replaced

    def backpropagate(self, settings: Settings, shards: list[Shard], seen: list[Statistics] | None) -> list[Array]:
        """Add the gradients of a micro-batch's shards, each times its share. Returns their shares of the loss.

        The statistics of every BatchNorm are appended to seen, if given.
        """
        self._settings, model = settings, self._models[0]
        if self._is_whole:
            return [shard.share * backpropagate(model, settings, shard, seen) for shard in shards]
        self._models = [model, *self.replicas.first(len(shards) - 1, settings.version)]
        losses: list[Array] = [None] * len(shards)

        def work(i: int) -> None:
            if i > 0:
                self._models[i].arena.zero_grad()
            compute = self.computes[i] if self.may_record else partial(_compute, i)
            (loss,) = compute(self, shards[i])
            losses[i] = shards[i].share * loss

        capabilities_of(model).in_threads([partial(work, i) for i in range(len(shards))])
        for replica in self._models[1:]:
            model.arena.add_gradients(replica.arena)
        return losses


def _compute(thread: int, shards: Shards, shard: Shard) -> tuple[Array]:
    """A shard's loss, on this thread's model."""
    return (backpropagate(shards._models[thread], shards._settings, shard, None),)


def _static_arguments(shards: Shards) -> Settings:
    """The static arguments of a record of a shard."""
    return shards._settings
