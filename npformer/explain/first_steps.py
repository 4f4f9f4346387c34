"""The first training steps of the showcase's model, which ``npformer explain adam`` and ``explain step`` show."""

from __future__ import annotations

from typing import Any

from npformer.explain.made import Made, made
from npformer.optim import Adam
from npformer.tracing.showcase import showcase_model
from npformer.training.step import TrainStep

#: The number that is shown unless another is asked for, and the updates of its course.
PLACE = "decoder.layers.0.self_attention.query.weight[3,1]"
COURSE = (1, 2, 3, 4, 5, 10, 20, 40)
RATE, CLIP_NORM = 1e-2, 1.0


def showcase_step() -> tuple[TrainStep, tuple[Any, ...]]:
    """A training step of the showcase's model, and the one batch on which it is trained."""
    model, inputs, targets, _ = showcase_model()
    return TrainStep(model, Adam(model.arena, RATE), clip_norm=CLIP_NORM), (*inputs, targets)


def first_steps() -> list[Made]:
    """Those of COURSE."""
    step, batch = showcase_step()
    return [one for one in (made(step, batch) for _ in range(COURSE[-1])) if one.number in COURSE]
