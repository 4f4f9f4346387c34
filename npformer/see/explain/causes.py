"""Why a step hurt: known causes, each with the evidence that would show it, the surest first.

A cause is named only on evidence of its own, since every loss rises at times: a step is made for one batch in many, and
noise needs no cause. What is broken before the step (a normalisation, an attention, the moments) comes before what the
step does (decay, clipping), then come the batch and, last, the length of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from npformer.io.percent import percent
from npformer.see.explain.change import Change
from npformer.typing import HostArray

#: The usual range of a gain's root mean square, and how far queries and keys may stand above their median.
USUAL_GAIN, OUTLIER = (0.2, 5.0), 8.0
#: A target is contradicted if the model was this sure of another, at this loss; in at most this share of the batch.
SURE, CONTRADICTED, FEW = 0.9, 4.0, 0.3
#: Clipping to less than this, of the gradient and of those before.
CUT = 0.2
#: The decay of matrices in one step that is no regularisation any more.
DECAYED = 0.02
#: A step is too long if it ends above its beginning, and by so much (of the loss, and in nats) above its lowest point,
#: which is in its first half.
RAISED, NATS, TOO_LONG = 0.1, 0.02, 0.5
#: Updates in which Adam's moments are those of a few batches.
FIRST_UPDATES = 20


class StepCause(NamedTuple):
    """A cause that the evidence names."""

    name: str
    evidence: str


def causes(change: Change) -> list[StepCause]:
    """The causes that the step shows, the first to look at first; none for a step like others."""
    return [StepCause(name, evidence) for name, look in LOOKS.items() for evidence in look(change)]


def _norm(change: Change) -> Iterator[str]:
    usual = f"{USUAL_GAIN[0]:g} to {USUAL_GAIN[1]:g}"
    for name, values in change.made.by_parameter(change.made.before).items():
        if name.endswith(".gamma") and not USUAL_GAIN[0] <= (size := _size(values)) <= USUAL_GAIN[1]:
            yield f"the gains of {name} have size {size:.3g}; they begin at 1, and {usual} is usual"


def _attention(change: Change) -> Iterator[str]:
    parameters = change.made.by_parameter(change.made.before)
    sizes = {name: _size(x) for name, x in parameters.items() if name.endswith(("query.weight", "key.weight"))}
    usual = median(sizes.values()) if sizes else 0.0
    for name, size in sizes.items():
        if size > OUTLIER * usual:
            yield (
                f"{name} has entries of size {size:.3g}, {size / usual:.0f} times the median of queries and keys "
                f"({usual:.3g}): scores are as much larger, and softmax saturates"
            )


def _moments(change: Change) -> Iterator[str]:
    update = change.made.update
    with_gradient = update.gradient != 0
    if update.t > 1 and with_gradient.any() and not update.v_before[with_gradient].any():
        yield f"Adam's v is 0 everywhere after {update.t - 1:,} updates: its history was lost, so that √v̂ is too small"


def _decay(change: Change) -> Iterator[str]:
    update = change.made.update
    size, kept = (math.sqrt(float(np.sum(x**2))) for x in (update.decay, update.before * (update.decay != 0)))
    if kept and size > DECAYED * kept:
        share = percent(size / kept, 0)
        yield f"weight decay takes {share} of the matrices in this step; rate times λ is below 1 % as a rule"


def _clipping(change: Change) -> Iterator[str]:
    update = change.made.update
    if update.t < 2:
        return
    usual = math.sqrt(float(np.sum(update.v_before)) / (1 - update.betas[1] ** (update.t - 1)))
    clipped = update.norm * update.factor
    if update.factor < CUT and clipped < CUT * usual:
        yield (
            f"clipping leaves {percent(update.factor, 2)} of the gradient: norm {update.norm:.3g} becomes "
            f"{clipped:.3g}, where {usual:.3g} was usual; the step is made by past gradients"
        )


def _labels(change: Change) -> Iterator[str]:
    tokens = change.before.tokens
    odd = [t for t in tokens if t.loss > CONTRADICTED and t.answer != t.target and t.confidence > SURE]
    share = math.fsum(t.loss for t in odd) / max(math.fsum(t.loss for t in tokens), 1e-300)
    if 3 <= len(odd) <= FEW * len(tokens) and share > 0.5:
        rows = sorted({token.row for token in odd})
        yield (
            f"{len(odd)} of {len(tokens)} targets, in sequences {', '.join(map(str, rows[:6]))}"
            f"{', …' * (len(rows) > 6)}, contradict what the model is sure of; they carry {percent(share, 0)} of the "
            "loss: look whether they are right"
        )


def _too_long(change: Change, early: bool) -> Iterator[str]:
    """A step whose loss has a lowest point well before its end; early: without a warm-up."""
    begin, (share, lowest), end = change.before.loss, change.lowest, change.after.loss
    fell_first = change.predicted < 0 or share > 0
    is_long = end > begin and end - lowest > NATS + RAISED * begin and share < TOO_LONG
    t, rate, rate_of = change.made.update.t, float(np.max(change.made.update.rate)), change.made.twin._rate_of
    without = t <= FIRST_UPDATES and min(rate, rate_of(1)) >= max(map(rate_of, range(t, 1000))) / 2
    if fell_first and is_long and without == early:
        yield (
            f"update {t}, at the rate {rate:.3g}{', without a warm-up' * early}, is too long: the loss falls until "
            f"{percent(share, 0)} of it, and at its end is {change.change:.3g} higher than at its beginning"
        )


LOOKS: dict[str, Callable[[Change], Iterator[str]]] = {
    "norm": _norm,
    "attention": _attention,
    "moments": _moments,
    "decay": _decay,
    "clipping": _clipping,
    "labels": _labels,
    "warm-up": partial(_too_long, early=True),
    "rate": partial(_too_long, early=False),
}


def _size(values: HostArray) -> float:
    return math.sqrt(float(np.mean(values**2)))
