"""What went wrong in a run: the first step after which its loss did not come back, and causes, with their numbers.

The log tells where: a line is good up to LIFT times the lowest loss, or until KEPT of what was learnt is lost, and
NATS; the last good one is looked for. The steps from there to the next line are made again where a checkpoint is near
enough. The one that is explained raised the loss of its own batch, or has a bad batch.

A cause is named on evidence alone: a number of the log, of the last checkpoint, or of steps made again with another
rate. Not more than BUDGET steps are made in all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import NpformerError
from npformer.io.percent import percent
from npformer.io.printable import visible
from npformer.optim import Schedule
from npformer.run.directory import RunDirectory
from npformer.run.metrics import read
from npformer.run.model_arrays import model_arrays
from npformer.see.explain.change import Change, change_document, change_lines, change_of
from npformer.see.explain.step import Prepared, prepare, row
from npformer.training.layer_norms import DEAD, NORM, SATURATED, UPDATE, fields_in

BUDGET = 200
LIFT, KEPT, NATS = 1.5, 0.25, 0.05
#: The share of a matrix that decay may take in a step, that of a gradient which clipping leaves, and that of dropout.
DECAYED, CUT, DROPPED = 0.01, 0.01, 0.35
#: Queries, keys, maps, and embeddings where they are used, have entries of about 1/√C, and gains of 1. Those of LARGE
#: times that, or outside of 1/GAIN to GAIN, are named, unless a high rate has made all maps GROWN times as large.
LARGE, SMALL, GAIN, GROWN, ALL_DEAD = 4.0, 0.1, 3.0, 1.5, 0.95
#: The loss of batches of training, without dropout, over that of held-out examples.
LABELS = 1.3
#: Steps that are made again at another rate where no loss was lost and the last one is above LEARNT of the first. A
#: higher rate only where it is above LITTLE of it, since early steps alone say nothing of a long run.
FIRST_STEPS, LEARNT, LITTLE, BETTER = 60, 0.2, 0.7, 0.93
#: Names, words, and the schedule that follows from the run's own and its highest rate.
TRIES: tuple[tuple[str, str, Callable[[Schedule, float], Schedule]], ...] = (
    ("rate", "at a tenth of the rate", lambda rate, peak: lambda step: rate(step) / 10),
    ("warm-up", "with a warm-up of 40 steps", lambda rate, peak: lambda step: peak * min(1.0, step / 40)),
    ("rate-low", "at thirty times the rate", lambda rate, peak: lambda step: 30 * rate(step)),
)


class Cause(NamedTuple):
    """What the evidence names."""

    name: str
    evidence: str
    parts: Sequence[str] = ()  # beginnings of parameters' names


class Hurt(NamedTuple):
    """Where the loss was lost."""

    after: int  # the step of the last good line of the log
    by: int  # of the first bad one
    good: float
    limit: float  # of a good loss
    bad: float
    first: int | None = None  # the first step with a bad loss, if the steps between were made again


class Course:
    """A run: what it logged, its last checkpoint, what was found, and how many steps were made again."""

    def __init__(self, path: Path) -> None:
        self.path, self.made = path, 0
        lines = read(RunDirectory.open(path).metrics_path)
        kinds = ("train", "eval", "gradient")
        self.trained, self.evaluated, self.layers = ([x for x in lines if x.get("kind") == kind] for kind in kinds)
        self.losses = {int(line["step"]): float(line["loss"]) for line in self.trained}
        self.rate = max((float(line["learning_rate"]) for line in self.trained), default=0.0)
        self.last: Prepared = prepare(path, 2**62)
        self.hurt = hurt_in([*self.losses.items()])
        self.change: Change | None = None  # by the step that hurt, if it could be made again
        self.note = ""  # why not
        try:
            self._look()
        except NpformerError as error:
            self.note = str(error)
        self.causes = [cause for look in LOOKS for cause in look(self)] or [*_tried(self)]

    def _look(self) -> None:
        """Make the steps again between which the loss was lost, and explain one."""
        if self.hurt is None or (begun := self.again(self.hurt.by)) is None:
            self.note = "the nearest checkpoint is too far away; keep_last keeps more of them" if self.hurt else ""
            return
        limit, after, by = self.hurt.limit, self.hurt.after, self.hurt.by
        bad = [at for at, loss, *_ in begun._replace(number=0).steps(by) if at > after and not float(loss) <= limit]
        first = (bad or [by])[0]
        self.hurt = self.hurt._replace(first=first)
        for number in (first - 1, first):
            if number and (again := self.again(number)) and (self.change is None or self.change.change <= 0):
                self.change = change_of(again.replay())
        self.note = (
            "" if self.change else f"npformer explain {visible(str(self.path))} --step {first} explains the step"
        )

    def again(self, number: int, begin: float = math.inf) -> Prepared | None:
        """The run before this step; None if too many steps would have to be made again. They are counted."""
        begun = prepare(self.path, number, begin)
        steps = begun.ends - begun.begins
        self.made += steps if (fits := self.made + steps <= BUDGET) else 0
        return begun if fits else None

    def left(self) -> float:
        """The last loss as a share of the first one, or of a blind guess if that is less."""
        guess = math.log(len(self.last.assembled.task.vocabulary))
        return self.losses[max(self.losses)] / min(guess, self.losses[min(self.losses)]) if self.losses else 0.0

    def field(self, field: str) -> dict[str, list[float]]:
        """Part -> what the evaluations logged of it, without those at a rate of 0."""
        lines = [line for line in self.layers if any(fields_in(line, UPDATE).values())]
        parts = fields_in(lines[-1], field) if lines else {}
        return {part: [float(line.get(field + part, math.nan)) for line in lines] for part in parts}


def hurt_in(losses: list[tuple[int, float]]) -> Hurt | None:
    """Where the loss was lost; None if it came back from every rise."""
    least = min((x for _, x in losses if math.isfinite(x)), default=math.nan)
    limit = NATS + min(LIFT * least, least + KEPT * (losses[0][1] - least)) if losses else math.nan
    last = max((i for i, (_, x) in enumerate(losses) if x <= limit), default=-1)
    if last >= 0 and (last < len(losses) - 2 or not math.isfinite(losses[-1][1])):
        return Hurt(losses[last][0], losses[last + 1][0], least, limit, losses[last + 1][1])
    return None


def _of_updates(course: Course) -> Iterator[Cause]:
    norms = course.field(NORM)
    parts = [part for part, moved in course.field(UPDATE).items() if len(moved) > 1 and not any(moved[-2:])]
    if parts := [part for part in parts if norms[part][-1] > 0]:
        yield Cause("frozen", f"no update at the last evaluations, but a gradient: {', '.join(parts)}", parts)


def _of_options(course: Course) -> Iterator[Cause]:
    training, step = course.last.assembled.options.training, course.last.assembled.step
    share = training.weight_decay * course.rate
    if training.optimizer == "adamw" and share > DECAYED:
        told = f"weight_decay {training.weight_decay:g} times the rate {course.rate:.3g} takes {percent(share, 1)}"
        yield Cause("decay", f"{told} of every matrix at a step")
    squares = step.model.backend.host(step.optimizer.v) / (1 - training.beta2 ** max(1, step.step_number))
    usual = float(np.median(np.sqrt(squares[squares > 0]))) if squares.any() else math.inf
    if training.eps > usual:
        yield Cause("adam", f"eps {training.eps:g} is above √v̂, whose median is {usual:.2g}: it shortens all steps")
    for name, beta, least, most in (("beta1", training.beta1, 0.0, 0.98), ("beta2", training.beta2, 0.9, 0.9999)):
        if not least <= beta <= most:
            yield Cause(
                "adam", f"{name} {beta:g}: a mean over {1 / (1 - beta):.3g} steps, of {training.steps:,} in all"
            )
    norm = median([float(line.get("grad_norm", math.nan)) for line in course.trained[-9:]] or [math.nan])
    if training.clip_norm is not None and training.clip_norm < CUT * norm < math.inf:
        yield Cause("clipping", f"gradients of norm {norm:.3g} are cut to {training.clip_norm:g}")
    if step.model.config.dropout >= DROPPED:
        yield Cause("dropout", f"dropout {step.model.config.dropout:g} zeroes that share of every sub-layer's output")


def _of_data(course: Course) -> Iterator[Cause]:
    begun, step = course.last, course.last.assembled.step
    held = [(line["step"], float(line["loss"])) for line in course.evaluated]
    known, losses = [loss for at, loss in held if at == begun.begins and math.isfinite(loss)], []
    for number in range(max(1, begun.begins - 3), begun.begins + 1) if known else ():
        *inputs, targets = begun.assembled.task.batch(number, begun.assembled.options.training.batch_size)
        targets = step.model.backend.integers(targets)
        losses.append(
            float(step.model.ops.cross_entropy.forward(step.model(*inputs), targets, step.model.config.pad_id, 0.0)[0])
        )
    if losses and (mean := math.fsum(losses) / len(losses)) > LABELS * known[0] + NATS:
        told = f"without dropout, the loss of the last batches is {mean:.3g}, that of held-out examples {known[0]:.3g}"
        yield Cause("labels", f"{told}: the data of training contradict what the model learns")
    least, end = min((loss for _, loss in held), default=math.nan), course.trained[-1]["loss"] if held else math.nan
    if held and held[-1][1] > max(LIFT * least + 4 * NATS, 2 * end):
        told = f"the held-out loss rose from {least:.3g} to {held[-1][1]:.3g}, that of training is {end:.3g}"
        yield Cause("overfitting", told)


def _of_weights(course: Course) -> Iterator[Cause]:
    model = course.last.assembled.step.model
    arrays, saturated = model_arrays(model), course.field(SATURATED)
    sizes = {name: math.sqrt(float(np.mean(np.square(x, dtype=np.float64)))) for name, x in arrays.items()}
    wide = {name: size * math.sqrt(model.config.d_model) for name, size in sizes.items()}
    if median([x for name, x in wide.items() if name.endswith(("value.weight", "output.weight"))] or [1.0]) > GROWN:
        return
    for name in wide:
        if name.endswith(("query.weight", "key.weight")) and wide[name] > LARGE:
            part = name.rpartition(".")[0].rpartition(".")[0]
            told = f"entries of {name} are {wide[name]:.3g}/√d_model large, where 1/√d_model is usual"
            for share in saturated.get(part, [])[-1:]:
                told += f"; {percent(share, 0)} of the queries of {part} are saturated"
            yield Cause("attention", told, [part])
    if dead := {part: shares[-1] for part, shares in course.field(DEAD).items() if shares[-1] > ALL_DEAD}:
        told = ", ".join(f"{percent(share, 0)} of {part}" for part, share in dead.items())
        yield Cause("dead", f"hidden units that are 0 at every token: {told}", [*dead])
    for name, size in sizes.items():
        used = wide[name] if model.config.scale_embedding else size
        if name.endswith(".gamma") and not 1 / GAIN < size < GAIN:
            yield Cause("norm", f"the gains {name} have size {size:.3g}; they begin at 1", [name])
        if name.endswith("embedding.weight") and not SMALL < used < LARGE:
            yield Cause(
                "embedding", f"entries of {name} have size {used:.3g} where they are used, positions 0.7", [name]
            )


LOOKS = (_of_updates, _of_options, _of_data, _of_weights)


def _tried(course: Course) -> Iterator[Cause]:
    """What steps made again at another rate show: from before the loss was lost, else from the beginning."""
    losses, hurt, found = course.losses, course.hurt, []
    end = hurt.by if hurt else next((step for step in losses if step >= FIRST_STEPS), 0)
    left = course.left()
    if not end or (hurt is None and left < LEARNT):
        return
    for name, words, of in TRIES[: 3 if left > LITTLE else 2] if end <= FIRST_STEPS else TRIES[:1]:
        begun = course.again(end, math.inf if hurt else 0)
        if begun is not None and (step := begun.assembled.step).schedule is not None:
            step.schedule, before = of(step.schedule, course.rate), max(at for at in (0, *losses) if at < end)
            made = [float(loss) for at, loss, *_ in begun._replace(number=0, logged={}).steps(end) if at > before]
            found.append((math.fsum(made) / len(made), name, words))
    for loss, name, words in sorted(each for each in found if math.isfinite(each[0]))[:1]:
        if loss < BETTER * losses[end] or not math.isfinite(losses[end]):
            yield Cause(
                name, f"made again {words}, step {end} has the loss {loss:.3g}; the run logged {losses[end]:.3g}"
            )


def course_told(course: Course, width: int) -> Iterator[str]:
    """The course, where the loss was lost, the causes, and the step."""
    path, losses, hurt = visible(str(course.path)), course.losses, course.hurt
    ends = f"training loss {losses[min(losses)]:.3g} to {losses[max(losses)]:.3g}" if losses else "nothing was logged"
    where, nothing = "no loss was lost", "nothing: no sign of a known cause"
    if hurt:
        where = f"the loss is {hurt.good:.3g} until step {hurt.after:,}, {hurt.bad:.3g} by step {hurt.by:,}, for good"
        where += f"; step {hurt.first:,} is the first with a bad one" if hurt.first else ""
    elif (left := course.left()) >= LEARNT:
        nothing += (
            f"; {percent(left, 0)} of the first loss, or of a blind guess, is left: it needs more steps, more of a "
        )
        nothing += "model, or other data"
    named = [f"{cause.name}: {cause.evidence}" for cause in course.causes] or [nothing]
    made = f"{course.made} steps, of at most {BUDGET}{'; ' * bool(course.note)}{course.note}"
    told = (("run", f"{path}: {ends}"), ("hurt", where), *(("cause", text) for text in named), ("made again", made))
    for title, text in told:
        yield row(title, text, width)
    if course.change:
        yield from ("", *change_lines(course.change, path, course.last.pieces, width))


def course_document(course: Course) -> dict[str, Any]:
    """All of it, for JSON."""
    return {
        "format": "npformer-run", "hurt": course.hurt and course.hurt._asdict(), "made_again": course.made,
        "causes": [cause._asdict() for cause in course.causes], "note": course.note,
        "step": course.change and change_document(course.change, course.last.pieces),
    }  # fmt: skip
