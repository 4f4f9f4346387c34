"""How a step changed its batch's loss, split exactly, in float64 with the same dropout masks.

By token, the parts are differences: (loss after − loss before)/N. By parameter they are the integral of gradient times
step along the straight line from the values before to those after,

    L(p + Δ) − L(p) = Σ_i Δ_i·∫₀¹ (∂L/∂p_i)(p + sΔ) ds

by Gauss's quadrature (``numpy.polynomial.legendre``). A gate of ReLU that switches on the way has a kink, so the
quadrature leaves a remainder, which more points may not make smaller; it has a row of its own. The step is a sum, too:
what the past moves, this gradient, the decay, and rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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


def rise(change: Change) -> str:
    """How the step raised its batch's loss: the batch and its masks are the same before and after."""
    share, past = change.lowest[0], change.by_part["past gradients"]
    if change.predicted >= 0:
        return (
            f"the direction: along the step this batch's loss rises from its beginning; past gradients, which Adam "
            f"follows, make {number(past)} of the change"
        )
    return (
        f"the length: the slope promised {number(change.predicted)}, and the loss does fall until {percent(share, 0)} "
        f"of the step; but it curves, and at the end it is {number(change.change)} from its beginning"
    )


def change_lines(change: Change, name: str, pieces: Sequence[str], width: int) -> Iterator[str]:
    """The loss, its split in three ways, and the causes."""
    update, (share, loss) = change.made.update, change.lowest
    by_token = {
        f"b{b.row} t{b.place} {pieces[b.target]!r} {b.loss:.3g} → {a.loss:.3g}": part
        for b, a, part in zip(change.before.tokens, change.after.tokens, change.by_token, strict=True)
    }
    up, down = ([part for part in change.by_token if (part > 0) == is_up] for is_up in (True, False))
    clipped = "" if update.factor == 1 else f", clipped to {update.norm * update.factor:.4g}"
    frozen = [segment.name for segment in change.made.twin.model.arena.segments if not segment.trainable]
    yield f"step {change.made.number} of {name}"
    for title, text, parts in (
        ("loss", f"{change.before.loss:.6g} before, {change.after.loss:.6g} after: {number(change.change)} (this "
                 "step's batch, the same dropout, float64)", {}),
        *([("log", change.made.logged, {})] if change.made.logged else []),
        ("line", f"gradient·step promised {number(change.predicted)}; on the straight line the loss is lowest, "
                 f"{loss:.6g}, after {percent(share, 0)} of the step", {}),
        ("tokens", f"{len(up)} of {len(by_token)} targets rose, together {number(math.fsum(up))}; the others "
                   f"{number(math.fsum(down))}", by_token),
        ("weights", "the integral of gradient·step over each", change.by_parameter),
        ("step", "the same, by what made the step", change.by_part),
        ("update", f"gradient of norm {update.norm:.4g}{clipped}; rate {float(update.rate.max()):.4g}; step of norm "
                   f"{math.sqrt(math.fsum(update.change**2)):.4g}"
                   f"{f'; frozen: {len(frozen)} parameters, {frozen[0]} first' if frozen else ''}", {}),
        *([("rose by", rise(change), {})] if change.change > 0 else []),
    ):  # fmt: skip
        yield row(title, text, width)
        yield from _rows(parts)


def _rows(parts: Mapping[str, float]) -> Iterator[str]:
    """Names, values and bars, the largest first; a bar of what lowers the loss is lighter."""
    order = sorted((name for name in parts if name != REMAINDER and parts[name]), key=lambda name: -abs(parts[name]))
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
        "rate": float(update.rate.max()), "logged": change.made.logged,
    }  # fmt: skip
