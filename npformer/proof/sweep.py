"""The numerical slope over a sweep of step sizes, and what its shape tells.

For a smooth function the error of a central difference falls as h² while h shrinks, until rounding,
which grows as 1/h, takes over: on logarithmic axes the error is a V. Against a *wrong* gradient it does
not fall but runs level: the two slopes differ, whatever h is. At a *kink* the slopes to the right and to
the left settle on different values. Where nothing settles, the arithmetic is too coarse to tell.

    D(h) = (L(x + h) − L(x − h))/2h      R(h) = (L(x + h) − L(x))/h      R − left slope = 2(R − D)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.proof.report import KINK, RIGHT, UNCLEAR, WRONG
from npformer.proof.subject import Subject

Host = np.ndarray[Any, Any]

STEPS = 10.0 ** -np.arange(1, 11.01, 0.5)  # 1e-1 … 1e-11


@dataclass(frozen=True)
class Sweep:
    """Slopes of L along one direction, for each h: central differences and one-sided ones."""

    h: Host  # (k,)
    central: Host  # (k,)
    right: Host  # (k,)
    left: Host  # (k,)

    @property
    def _best(self) -> int:
        """Where three neighbouring central differences agree best: the bottom of the V.

        Steps too small to move a coarse function at all give exact zeros, which agree but say nothing.
        """
        change = np.abs(np.diff(self.central))
        change = change[:-1] + change[1:]
        moved = self.central != 0
        if moved.any():
            change = np.where(moved[:-2] & moved[1:-1] & moved[2:], change, np.inf)
        return int(np.argmin(change)) + 1

    @property
    def slope(self) -> float:
        """The central difference at the bottom of the V."""
        return float(self.central[self._best])

    @property
    def noise(self) -> float:
        """How far the central differences around the bottom of the V differ: what this slope is worth."""
        i = self._best
        return float(np.ptp(self.central[i - 1 : i + 2]))

    @property
    def jump(self) -> float:
        """By how much the slope to the right exceeds that to the left, where both have settled best."""
        gap = self.right - self.left
        change = np.abs(np.diff(gap))
        return float(gap[int(np.argmin(change)) + 1])

    def verdict(self, claimed: float, scale: float, tolerance: float) -> str:
        """Of a claimed slope: right, WRONG, KINK HERE or CANNOT TELL, errors divided by scale."""
        settled = self.noise / scale
        if abs(self.jump) / scale > 1e-3 and abs(self.jump) > 100 * self.noise:
            return KINK
        if settled > max(tolerance, 1e-4):
            return UNCLEAR
        error = abs(claimed - self.slope) / scale
        if error <= max(tolerance, 3 * settled):
            return RIGHT if settled <= 10 * tolerance else UNCLEAR
        return WRONG


def sweep(subject: Subject, tensor: str, direction: Host, upstream: tuple[Host, ...]) -> Sweep:
    """Slopes of L = Σ r·y, r the upstream gradients, along a direction in a tensor (of its shape)."""
    x = subject.tensors[tensor]
    middle = subject.outputs({})
    right, left = [], []
    for h in STEPS:
        above, below = (subject.outputs({tensor: x + step * direction}) for step in (h, -h))
        right.append(_change(upstream, above, middle) / h)
        left.append(_change(upstream, middle, below) / h)
    ahead, behind = np.array(right), np.array(left)
    return Sweep(STEPS.copy(), (ahead + behind) / 2, ahead, behind)


def _change(upstream: tuple[Host, ...], after: tuple[Host, ...], before: tuple[Host, ...]) -> float:
    return sum(float(np.sum(r * (a - b))) for r, a, b in zip(upstream, after, before, strict=True))
