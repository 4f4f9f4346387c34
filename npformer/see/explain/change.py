"""How a step changed its batch's loss, split exactly, in float64 and with the same dropout masks before and after.

By token, the parts are differences: (loss after − loss before)/N. By parameter they are the integral of gradient times
step along the straight line from the values before to those after,

    L(p + Δ) − L(p) = Σ_i Δ_i·∫₀¹ (∂L/∂p_i)(p + sΔ) ds

by Gauss's quadrature (``numpy.polynomial.legendre``). A gate of ReLU that switches on the way has a kink, so the
quadrature leaves a remainder, which more points may not make smaller; it has a row of its own. The step is a sum, too:
what the past moves, this gradient, the decay, and rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from npformer.errors import DivergedError
from npformer.see.explain.step import BatchLook, ReplayedStep
from npformer.typing import HostArray

#: Points of the quadrature, tried in turn until the remainder is small enough, or no smaller than with half of them.
POINTS = (6, 12, 24, 48)
SMALL = 1e-3  # of the change
REMAINDER = "remainder of the quadrature"


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
