"""A training step split over threads, recorded, or one launch on a GPU; the result is the same as in ``TrainStep``.

The numbers that change from step to step (``StepInputs``) are passed separately. So a backend may record the rest
once, and write the numbers to the buffers that the record reads.

Each thread runs forward, loss and backward for one shard (some rows) of a micro-batch, with a replica of the model that
has its own gradients. Their sum is the micro-batch's gradient, by the formula in ``training/step.py``. The backend may
record a thread's operations and replay them without Python.

A model with BatchNorm is not split: its rows depend on each other. Each micro-batch is normalised by its own
statistics, so accumulate changes the result. The running statistics are updated together with the parameters,
one micro-batch after the other.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

from npformer.engine.capabilities import capabilities_of, run_eagerly
from npformer.engine.compile_ahead import compile_ahead
from npformer.engine.replica import Replicas
from npformer.engine.static import has_own_ops, is_npformers, is_static
from npformer.errors import DeviceMemoryError
from npformer.layers.batch_norm import BatchNorm, Statistics
from npformer.layers.owner import version_of
from npformer.models import Model
from npformer.training.descent import Settings, Shard, StepInputs, backpropagate, shards_of, update
from npformer.typing import Array

REMEDY = "Lower batch_size, or keep it and raise accumulate, which computes the same in so many parts"


def runner_for(model: Model) -> Runner | None:
    """A runner for steps of the model; None if it would not help: one thread, and nothing to record."""
    compile_ahead(model, "training")
    engine = capabilities_of(model)
    if engine.threads == 1 and engine.capture is engine.capture_part is run_eagerly:
        return None
    return Runner(model)


class Runner:
    """Runs the steps of one ``TrainStep``."""

    def __init__(self, model: Model) -> None:
        self.shards = Shards(model)
        # not bound methods: the reference cycle would keep the replicas' memory until garbage collection
        self.compute = capabilities_of(model).capture(
            _update, lambda subject: subject[1].settings(), changes=lambda subject: subject[0].begun
        )
        self.begun = 0  # updates

    def make(self, step: Any, inputs: StepInputs) -> tuple[Array, Array | None]:
        """Run a step and count it. Returns its loss (), and the norm () of the gradient, if computed."""
        optimizer, before = step.optimizer, step.optimizer.t
        try:
            with step.interrupt:
                if capabilities_of(step.model).updates is None:
                    return self._compute(step, inputs)
                with step.interrupt.firmly():  # one launch updates, too, and its Adam does not count
                    loss_and_norm = self._compute(step, inputs)
                    if optimizer.t == before:
                        optimizer.t += 1
                return loss_and_norm
        except DeviceMemoryError as error:
            if error.has_begun:
                raise DeviceMemoryError(f"{error}; an update was begun: this model is of no use", True) from None
            raise DeviceMemoryError(f"{error}. {REMEDY}") from None

    def _compute(self, step: Any, inputs: StepInputs) -> tuple[Array, Array | None]:
        """The step, captured if the backend can."""
        self.shards.look()
        if self.shards.may_record:
            return self.compute((self, step), inputs)  # type: ignore[no-any-return]
        work, before = partial(_update, (self, step), inputs), self.begun
        return capabilities_of(step.model).with_room(work, lambda: self.begun != before)  # type: ignore[no-any-return]


def _update(subject: tuple[Runner, Any], inputs: StepInputs) -> tuple[Array, Array | None]:
    """The loss (), and the norm () of the gradient, if computed."""
    runner, step = subject
    step.model.arena.zero_grad()
    losses, settings, seen = [], step.settings(), list[Statistics]()
    backward_pass = capabilities_of(step.model).backward_pass if runner.shards.may_record else nullcontext
    for shards in shards_of(inputs, step.model.backend):
        with backward_pass(runner.shards.is_known):
            losses += runner.shards.backpropagate(settings, shards, seen)
    runner.begun += 1
    return sum(losses[1:], start=losses[0]), update(settings, inputs.rates, seen, step.interrupt)


class Shards:
    """The backend's threads, each with the model or a replica of it."""

    def __init__(self, model: Model, slots: int = 1) -> None:
        self.replicas = Replicas(model)
        self._models = [model]
        self._settings: Settings  # of the step that is being made
        self._version = -1
        engine = capabilities_of(model)
        self.by_slots = slots > 1 and engine.capture is not run_eagerly  # a GPU, which otherwise records the whole step
        capture = engine.capture if self.by_slots else engine.capture_part
        self.backward_pass = engine.backward_pass if self.by_slots else nullcontext
        several: dict[str, Any] = {"times": slots} if slots > 1 else {}  # which rows they are is a record's constant
        if self.by_slots:
            several["changes"] = lambda shards: object()  # a gradient is added to, so no part is made again by itself
        # not bound methods: the reference cycle would keep the replicas' memory until garbage collection
        self.computes = [
            capture(partial(_compute, thread), lambda shards: shards._settings, **several)
            for thread in range(engine.threads)
        ]

    def look(self) -> None:
        """Examine the model's structure again if it has changed."""
        model = self._models[0]
        version = version_of(model)
        if version != self._version:
            self._version = version
            self._is_whole = any(isinstance(each, BatchNorm) for each in model.all_layers())  # rows depend on others
            self.may_record = is_static(model) and has_own_ops(model)
            self.is_known = self.may_record and is_npformers(model)

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
        model = self._models[0]
        if self._is_whole:
            return [shard.share * backpropagate(model, settings, shard, seen) for shard in shards]
        self.begin(settings, len(shards))
        losses: list[Array] = [None] * len(shards)

        def work(i: int) -> None:
            if i > 0:
                self._models[i].arena.zero_grad()
            losses[i] = self.loss_of(i, shards[i])

        capabilities_of(model).in_threads([partial(work, i) for i in range(len(shards))])
        for replica in self._models[1:]:
            model.arena.add_gradients(replica.arena)
        return losses

    def begin(self, settings: Settings, threads: int) -> list[Model]:
        """Begin a step of these settings. Returns the models of so many threads, the first of them the model itself."""
        self._settings, model = settings, self._models[0]
        self._models = [model, *self.replicas.first(threads - 1, settings.version)]
        return self._models

    def loss_of(self, thread: int, shard: Shard) -> Array:
        """Add a shard's gradient, times its share, to that of the thread's model. Returns its share of the loss."""
        compute = self.computes[thread] if self.may_record else partial(_compute, thread)
        constant: Any = slice(shard.micro, None)  # a GPU's kernels take it by value, so records have it as a constant
        (loss,) = compute(self, shard._replace(micro=constant) if self.by_slots else shard)
        return shard.share * loss


def _compute(thread: int, shards: Shards, shard: Shard) -> tuple[Array]:
    """A shard's loss, on this thread's model."""
    model = shards._models[thread]
    if shards.by_slots:  # not recorded, its batch is still on the host
        constant: Any = shard.micro
        shard = shard._replace(micro=constant.start, batch=tuple(map(model.backend.on_device, shard.batch)))
    with shards.backward_pass(shards.is_known):
        return (backpropagate(model, shards._settings, shard, None),)
