"""How a step changed its batch's loss, split exactly, in float64 with the same dropout masks; and why it hurt.

By token, the parts are differences: (loss after − loss before)/N. By parameter they are the integral of gradient times
step along the straight line from the values before to those after,

    L(p + Δ) − L(p) = Σ_i Δ_i·∫₀¹ (∂L/∂p_i)(p + sΔ) ds

by Gauss's quadrature (``numpy.polynomial.legendre``). A gate of ReLU that switches on the way has a kink, so the
quadrature leaves a remainder, which more points may not make smaller; it has a row of its own. The step is a sum, too:
what the past moves, this gradient, the decay, and rounding.

A cause is named only on evidence of its own, since every loss rises at times: a step is made for one batch in many, and
noise needs no cause. What is broken before the step (a normalisation, an attention, the moments) comes before what the
step does (decay, clipping), then come the batch and, last, the length of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from npformer.errors import DivergedError
from npformer.io.percent import percent
from npformer.see.explain.step import BatchLook, ReplayedStep, row
from npformer.see.explain.text import number
from npformer.typing import HostArray

#: Points of the quadrature, tried in turn until the remainder is small enough, or no smaller than with half of them.
POINTS = (6, 12, 24, 48)
SMALL = 1e-3  # of the change
REMAINDER = "remainder of the quadrature"
#: Rows of one list before the rest is summed.
MOST = 6

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


class Change(NamedTuple):
    """The change of a batch's loss by a step."""

    made: ReplayedStep
    before: BatchLook
    after: BatchLook
    change: float
    by_token: list[float]  # in the order of the looks' tokens
    by_parameter: dict[str, float]  # with the remainder
    by_part: dict[str, float]  # of the step, with the remainder
    predicted: float  # gradient times step, at the beginning of the line
    line: list[tuple[float, float]]  # (share of the step, loss), from 0 to 1

    @property
    def lowest(self) -> tuple[float, float]:
        """The share of the step after which the loss was lowest, of those looked at, and that loss."""
        return min(self.line, key=lambda point: point[1])


def change_of(made: ReplayedStep) -> Change:
    """Split the change of the loss by a step that was made. Raises DivergedError if its way is not finite."""
    before, after, step = made.look(made.before), made.look(made.after), made.after - made.before
    counted = max(1, len(before.tokens))
    by_token = [(b.loss - a.loss) / counted for a, b in zip(before.tokens, after.tokens, strict=True)]
    change = math.fsum(by_token)
    mean, line = _refined(made, step, change)
    update = made.update
    parts = {"past gradients": update.by_past, "this gradient": update.by_gradient, "weight decay": update.decay}
    parts = {name: mean * part for name, part in (parts | {"rounding": step - update.change}).items()}
    return Change(
        made, before, after, change, by_token, _summed(made.by_parameter(mean * step), change), _summed(parts, change),
        math.fsum(update.gradient * step), [(0.0, before.loss), *line, (1.0, after.loss)],
    )  # fmt: skip


def _refined(made: ReplayedStep, step: HostArray, change: float) -> tuple[HostArray, list[tuple[float, float]]]:
    """The integral with the smallest remainder, and the losses at its points."""
    least = math.inf
    for points in POINTS:
        found = _integral(made, step, points)
        with np.errstate(all="ignore"):
            is_finite = math.isfinite(change) and bool(np.isfinite(found[0] * step).all())
        if not is_finite:
            raise DivergedError(
                f"update {made.update.t}: expected finite losses and gradients on the step's way, got others: they "
                f"cannot be split. The largest entry of the step is {np.max(np.abs(step)):.3g}, at the rate "
                f"{np.max(made.update.rate):.3g}: look at the rate first"
            )
        remainder = abs(change - math.fsum(found[0] * step))
        if remainder >= least:
            break
        best, least = found, remainder
        if remainder <= SMALL * abs(change):
            break
    return best


def _integral(made: ReplayedStep, step: HostArray, points: int) -> tuple[HostArray, list[tuple[float, float]]]:
    """The mean gradient (n,) on the way, and the losses at the points of the quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    mean, line = np.zeros_like(step), []
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        loss, gradient = made.gradient(made.before + node * step)
        mean += weight * gradient
        line.append((float(node), loss))
    return mean, line


def _summed(parts: Mapping[str, HostArray], change: float) -> dict[str, float]:
    """The sum of each part, and what they leave of the change."""
    sums = {name: math.fsum(np.ravel(part)) for name, part in parts.items()}
    return sums | {REMAINDER: math.fsum([change, *(-part for part in sums.values())])}


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


def change_lines(change: Change, name: str, pieces: Sequence[str], width: int) -> Iterator[str]:
    """The loss, its split in three ways, and the causes."""
    update, (share, loss) = change.made.update, change.lowest
    by_token = {
        f"b{b.row} t{b.place} {pieces[b.target]!r} {b.loss:.3g} → {a.loss:.3g}": part
        for b, a, part in zip(change.before.tokens, change.after.tokens, change.by_token, strict=True)
    }
    rose, fell = ([part for part in change.by_token if (part > 0) == up] for up in (True, False))
    clipped = "" if update.factor == 1 else f", clipped to {update.norm * update.factor:.4g}"
    named = [f"{cause.name}: {cause.evidence}" for cause in causes(change)]
    chance = "; a single batch may rise by chance" * (change.change > 0)
    nothing = f"nothing: no sign of any known cause ({', '.join(LOOKS)}){chance}"
    yield f"step {change.made.number} of {name}"
    for title, text, parts in (
        ("loss", f"{change.before.loss:.6g} before, {change.after.loss:.6g} after: {number(change.change)} (this "
                 "step's batch, the same dropout, float64)", {}),
        ("line", f"gradient·step promised {number(change.predicted)}; on the straight line the loss is lowest, "
                 f"{loss:.6g}, after {percent(share, 0)} of the step", {}),
        ("tokens", f"{len(rose)} of {len(by_token)} targets rose, together {number(math.fsum(rose))}; the others "
                   f"{number(math.fsum(fell))}", by_token),
        ("weights", "the integral of gradient·step over each", change.by_parameter),
        ("step", "the same, by what made the step", change.by_part),
        ("update", f"gradient of norm {update.norm:.4g}{clipped}; rate {float(update.rate.max()):.4g}; step of norm "
                   f"{math.sqrt(math.fsum(update.change**2)):.4g}", {}),
        *(("look at", text, {}) for text in named or [nothing]),
    ):  # fmt: skip
        yield row(title, text, width)
        yield from _rows(parts)


def _rows(parts: Mapping[str, float]) -> Iterator[str]:
    """Names, values and bars, the largest first; a bar of what lowers the loss is lighter."""
    order = sorted((name for name in parts if name != REMAINDER), key=lambda name: -abs(parts[name]))
    shown = {name: parts[name] for name in order[:MOST]}
    if len(order) > MOST:
        shown[f"{len(order) - MOST} more"] = math.fsum(parts[name] for name in order[MOST:])
    shown |= {name: parts[name] for name in parts if name == REMAINDER}
    largest, longest = max(map(abs, shown.values()), default=0.0) or 1.0, max(map(len, shown), default=0)
    for name, part in shown.items():
        bar = "▒█"[part > 0] * round(16 * abs(part) / largest)
        yield f"{'':12}{name:{longest}}  {number(part)}  {bar}".rstrip()


def change_document(change: Change, pieces: Sequence[str]) -> dict[str, Any]:
    """All of it, for JSON."""
    update, looks = change.made.update, zip(change.before.tokens, change.after.tokens, change.by_token, strict=True)
    return {
        "format": "npformer-step", "step": change.made.number, "loss_before": change.before.loss,
        "loss_after": change.after.loss, "change": change.change, "predicted": change.predicted, "line": change.line,
        "tokens": [b._asdict() | {"piece": pieces[b.target], "after": a.loss, "part": part} for b, a, part in looks],
        "parameters": change.by_parameter, "parts": change.by_part, "norm": update.norm, "factor": update.factor,
        "rate": float(update.rate.max()), "causes": [cause._asdict() for cause in causes(change)],
    }  # fmt: skip
