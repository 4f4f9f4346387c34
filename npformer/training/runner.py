"""A training step split over threads, recorded, or one launch on a GPU; the result is the same as in ``TrainStep``.

The numbers that change from step to step (``StepInputs``) are passed separately. So a backend may record the rest
once, and write the numbers to the buffers that the record reads.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

from npformer.engine.capabilities import capabilities_of, run_eagerly
from npformer.engine.compile_ahead import compile_ahead
from npformer.errors import DeviceMemoryError
from npformer.layers.batch_norm import Statistics
from npformer.models import Model
from npformer.training.descent import StepInputs, shards_of, update
from npformer.training.shards import Shards
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
    seen: list[Statistics] = []
    (loss,) = _loss(subject, inputs, seen)
    subject[0].begun += 1
    return loss, update(subject[1].settings(), inputs.rates, seen, subject[1].interrupt)


def _loss(subject: tuple[Runner, Any], inputs: StepInputs, seen: list[Statistics] | None = None) -> tuple[Array]:
    """The loss () of a batch; its gradient is in the arena. BatchNorm statistics are appended to seen, if given."""
    runner, step = subject
    step.model.arena.zero_grad()
    losses, settings = [], step.settings()
    backward_pass = capabilities_of(step.model).backward_pass if runner.shards.may_record else nullcontext
    for shards in shards_of(inputs, step.model.backend):
        with backward_pass(runner.shards.is_known):
            losses += runner.shards.backpropagate(settings, shards, seen)
    return (sum(losses[1:], start=losses[0]),)
