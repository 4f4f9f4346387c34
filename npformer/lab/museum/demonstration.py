"""A short training run, with and without a bug: same data, same initial weights, same dropout.

The task is to reverse a word of up to six of eight letters, with a model that two cores train in seconds. A bug has
the same effect in a large model, only later and at a higher price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.data import SequenceTask
from npformer.io.percent import finite, percent
from npformer.io.progress_bar import watched
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.patch import patched
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam, AdamW, Constant, Noam, Schedule
from npformer.training import TrainStep
from npformer.training.evaluation import evaluate_task

STEPS, BATCH, HELD_OUT = 250, 32, 60
RATE = 3e-3
#: It begins from Xavier's values, as most of the projects do in which the bugs were found.
MODEL: dict[str, Any] = {
    "d_model": 32, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 64, "dropout": 0.0,
    "init": "xavier",
}  # fmt: skip
_OF_MODEL = ("dropout", "norm_order", "activation", "positions", "tie_embeddings")


@dataclass(frozen=True)
class Course:
    """The course of one run."""

    losses: tuple[float, ...]  # of each step, nats per token; NaN after a failure
    exact_match: float  # share of held-out words reversed without a mistake, decoded freely; NaN if decoding fails
    trouble: str = ""  # the exception, if one was raised

    @property
    def last_loss(self) -> float:
        """The mean over the last tenth of the run."""
        return float(np.mean(self.losses[-max(1, len(self.losses) // 10) :]))

    def __str__(self) -> str:
        loss = f"loss {self.last_loss:.3f}" if math.isfinite(self.last_loss) else "loss not a number"
        if self.trouble:
            return f"{loss}; {self.trouble}"
        return f"{loss}, {percent(self.exact_match, 0)} of held-out words right"


@dataclass(frozen=True)
class Comparison:
    """The two runs, without and with the bug."""

    right: Course
    wrong: Course

    def to_dict(self) -> dict[str, Any]:
        """The outcome for JSON; NaN becomes None."""
        courses = {"right": self.right, "wrong": self.wrong}
        return {
            name: {"loss": finite(c.last_loss), "exact_match": finite(c.exact_match), "trouble": c.trouble}
            for name, c in courses.items()
        }


def compare(bug: Bug, steps: int = STEPS) -> Comparison:
    """Train twice. An exception that the bug causes is noted in the course, not raised."""
    return Comparison(right_course(bug.run or {}, steps), wrong_course(bug, steps))


def right_course(options: Mapping[str, Any], steps: int = STEPS) -> Course:
    """The run without a bug, with these options."""
    backend = get_backend("numpy", dtype="float32", kernels="plain", threads=1)
    return _train(options, backend, steps, "training without the bug")


def wrong_course(bug: Bug, steps: int = STEPS) -> Course:
    """The run with the bug."""
    with patched(bug.edits, dtype="float32") as backend, np.errstate(all="ignore"):
        return _train(bug.run or {}, backend, steps, "training with the bug")


def _train(options: Mapping[str, Any], backend: Backend, steps: int, what: str) -> Course:
    lengths = {"min_length": 6 if options.get("equal_lengths") else 1, "max_length": 6}
    task = SequenceTask("reverse", seed=1, symbols=8, **lengths)
    losses: list[float] = []
    doing = "training"
    try:
        step = _step(options, backend, task)
        for number in watched(range(1, steps + 1), what):
            losses.append(float(step(*task.batch(number, BATCH))))
        doing = "decoding"
        exact = evaluate_task(step.model, task, HELD_OUT).exact_match
    except Exception as error:
        losses += [math.nan] * (steps - len(losses))
        return Course(tuple(losses), math.nan, f"{doing} stops with {type(error).__name__}: {error}")
    return Course(tuple(losses), exact)


def _step(options: Mapping[str, Any], backend: Backend, task: SequenceTask) -> TrainStep:
    if "slots" in options:  # which an engine has, and plain kernels have one for several threads
        backend = get_backend("numpy", dtype=backend.dtype, kernels="plain", threads=2)
    size = len(task.vocabulary)
    chosen = MODEL | {name: options[name] for name in _OF_MODEL if name in options}
    config = TransformerConfig(size, size, max_seq_len=task.max_length, **chosen)
    model = Transformer(config, backend=backend, seed=2)
    betas, eps = (0.9, 0.98), options.get("eps", 1e-9)
    decay = options.get("weight_decay")
    optimizer = Adam(model.arena, RATE, betas, eps) if decay is None else AdamW(model.arena, RATE, betas, eps, decay)
    schedule: Schedule = Noam(config.d_model, 60, 0.5) if options.get("schedule") == "noam" else Constant(RATE)
    names = ("clip_norm", "accumulate", "label_smoothing", "slots")
    return TrainStep(model, optimizer, seed=3, schedule=schedule, **{n: options[n] for n in names if n in options})
