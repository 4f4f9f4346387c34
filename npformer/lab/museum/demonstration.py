"""A short training run, with and without a bug: same data, same initial weights, same dropout.

Both are made again from other weights, on other words, to tell the effect from chance. The task is to reverse a word of
up to six of eight letters, with a model that two cores train in seconds. A bug has the same effect in a large model,
only later and at a higher price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Backend, get_backend
from npformer.data import SequenceTask
from npformer.io.percent import finite, percent
from npformer.io.progress_bar import watched
from npformer.lab.mistake import Mistake
from npformer.lab.museum.patch import patched
from npformer.models import Transformer, TransformerConfig
from npformer.optim import Adam, AdamW, Constant, Noam, Schedule
from npformer.training import TrainStep
from npformer.training.evaluation import evaluate_task

STEPS, BATCH, HELD_OUT = 250, 32, 60
SEEDS = range(3)  # the first is drawn; without an effect all end above, or all below, once in ten
RATE = 3e-3
#: Where a loss ends, seen from others.
PLACES = ABOVE, AMONG, BELOW = "above", "among", "below"
#: It begins from Xavier's values, as most of the projects do in which the bugs were found.
MODEL: dict[str, Any] = {
    "d_model": 32, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 64, "dropout": 0.0,
    "init": "xavier",
}  # fmt: skip
_OF_MODEL = ("dropout", "norm_order", "activation", "positions", "tie_embeddings")


class Ends(NamedTuple):
    """How a run ends: its last loss, and its share of held-out words."""

    loss: float
    exact_match: float


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
    """The two runs, without and with the bug, and how such runs end with each of ``SEEDS``."""

    right: Course
    wrong: Course
    right_ends: tuple[Ends, ...]
    wrong_ends: tuple[Ends, ...]

    @property
    def told(self) -> tuple[str, str]:
        """How the runs without the bug end, and those with it, in words."""
        return _told(self.right, self.right_ends), _told(self.wrong, self.wrong_ends)

    @property
    def place(self) -> str:
        """Where the losses with the bug end: all above, all below, or among those without it."""
        return _place([end.loss for end in self.wrong_ends], [end.loss for end in self.right_ends])

    @property
    def verdict(self) -> str:
        """What training tells of the bug, in a sentence."""
        missed = _place([1 - end.exact_match for end in self.wrong_ends], [1 - e.exact_match for e in self.right_ends])
        if self.place != AMONG:
            alone = "" if missed != AMONG else ". The words do not show it, and for losses chance does so once in ten"
            return f"Each loss with the bug ends {self.place} each without it{alone}."
        if missed != AMONG:
            more = "more" if missed == ABOVE else "fewer"
            return f"The losses do not show the bug, the words do: each run with it misses {more} than each without it."
        return (
            "Runs with the bug end among those without it, so training this short and this small does not show it. "
            "Such bugs get shipped. The checks find it at once."
        )

    def to_dict(self) -> dict[str, Any]:
        """The outcome for JSON; NaN becomes None."""
        courses = {"right": (self.right, self.right_ends), "wrong": (self.wrong, self.wrong_ends)}
        return {
            name: {
                "loss": finite(c.last_loss), "exact_match": finite(c.exact_match), "trouble": c.trouble,
                "seeds": [{name: finite(value) for name, value in end._asdict().items()} for end in ends],
            }
            for name, (c, ends) in courses.items()
        }  # fmt: skip


def _told(course: Course, ends: Sequence[Ends]) -> str:
    if course.trouble or not all(math.isfinite(value) for end in ends for value in end):
        return str(course)
    losses, matches = zip(*ends, strict=True)
    low, high = percent(min(matches), 0).removesuffix(" %"), percent(max(matches), 0)
    found = f"loss {min(losses):.3f} to {max(losses):.3f}, {low} to {high} of held-out words right"
    return f"{found}, over {len(ends)} seeds"


def _place(wrong: Sequence[float], right: Sequence[float]) -> str:
    """A run that breaks off has no number, and counts as above."""
    wrong = [number if math.isfinite(number) else math.inf for number in wrong]
    return ABOVE if min(wrong) > max(right) else BELOW if max(wrong) < min(right) else AMONG


def compare(bug: Mistake, steps: int = STEPS) -> Comparison:
    """Train with all seeds. An exception that the bug causes is noted in the course, not raised."""
    options = bug.run or {}
    right, wrong = right_course(options, steps), wrong_course(bug, steps)
    with_bug = ends(wrong, lambda seed: wrong_course(bug, steps, seed))
    return Comparison(right, wrong, ends(right, lambda seed: right_course(options, steps, seed)), with_bug)


def ends(first: Course, course: Callable[[int], Course]) -> tuple[Ends, ...]:
    """How runs end with each of ``SEEDS``; first: the course of the first."""
    return tuple(Ends(one.last_loss, one.exact_match) for one in (first, *map(course, SEEDS[1:])))


def right_course(options: Mapping[str, Any], steps: int = STEPS, seed: int = SEEDS[0]) -> Course:
    """The run without a bug, with these options."""
    backend = get_backend("numpy", dtype="float32", kernels="plain", threads=1)
    return _train(options, backend, steps, "training without the bug", seed)


def wrong_course(bug: Mistake, steps: int = STEPS, seed: int = SEEDS[0]) -> Course:
    """The run with the bug."""
    with patched(bug.edits, dtype="float32") as backend, np.errstate(all="ignore"):
        return _train(bug.run or {}, backend, steps, "training with the bug", seed)


def _train(options: Mapping[str, Any], backend: Backend, steps: int, what: str, seed: int = SEEDS[0]) -> Course:
    lengths = {"min_length": 6 if options.get("equal_lengths") else 1, "max_length": 6}
    task = SequenceTask("reverse", seed=1 + 10 * seed, symbols=8, **lengths)
    losses: list[float] = []
    doing = "training"
    try:
        step = _step(options, backend, task, seed)
        for number in watched(range(1, steps + 1), what):
            losses.append(float(step(*task.batch(number, BATCH))))
        doing = "decoding"
        exact = evaluate_task(step.model, task, HELD_OUT).exact_match
    except Exception as error:
        losses += [math.nan] * (steps - len(losses))
        return Course(tuple(losses), math.nan, f"{doing} stops with {type(error).__name__}: {error}")
    return Course(tuple(losses), exact)


def _step(options: Mapping[str, Any], backend: Backend, task: SequenceTask, seed: int) -> TrainStep:
    if "slots" in options:  # which an engine has, and plain kernels have one for several threads
        backend = get_backend("numpy", dtype=backend.dtype, kernels="plain", threads=2)
    size = len(task.vocabulary)
    chosen = MODEL | {name: options[name] for name in _OF_MODEL if name in options}
    config = TransformerConfig(size, size, max_seq_len=task.max_length, **chosen)
    model = Transformer(config, backend=backend, seed=2 + 10 * seed)
    betas, eps = (0.9, 0.98), options.get("eps", 1e-9)
    decay = options.get("weight_decay")
    optimizer = Adam(model.arena, RATE, betas, eps) if decay is None else AdamW(model.arena, RATE, betas, eps, decay)
    schedule: Schedule = Noam(config.d_model, 60, 0.5) if options.get("schedule") == "noam" else Constant(RATE)
    names = ("clip_norm", "accumulate", "label_smoothing", "slots")
    return TrainStep(
        model, optimizer, seed=3 + 10 * seed, schedule=schedule, **{n: options[n] for n in names if n in options}
    )
