"""The numerical slope over a sweep of step sizes, and the meaning of its shape.

For a smooth function the error of a central difference falls as h² while h shrinks, until rounding,
which grows as 1/h, dominates: on logarithmic axes the error is a V. The error of a *wrong* gradient does
not fall but stays level: the two slopes differ for every h. At a *kink* the slopes to the right and to
the left converge to different values. If nothing converges, the arithmetic is too coarse to decide.

    D(h) = (L(x + h) − L(x − h))/2h      R(h) = (L(x + h) − L(x))/h      R − left slope = 2(R − D)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npformer.check.measures import loss_of
from npformer.check.oracles import changes_near
from npformer.check.report import KINK, RIGHT, UNCLEAR, WRONG
from npformer.check.subject import Subject, Upstream
from npformer.typing import HostArray

STEPS = 10.0 ** -np.arange(1, 11.01, 0.5)  # 1e-1 … 1e-11


@dataclass(frozen=True)
class Sweep:
    """Slopes of L along one direction, for each h of STEPS: central differences and one-sided ones."""

    central: HostArray  # (k,)
    right: HostArray  # (k,)
    left: HostArray  # (k,)

    @cached_property
    def _noise(self) -> HostArray:
        """For each h, the error estimate of its central difference.

        By how much it differs from its neighbours, and what all smaller steps say of the rounding ν of the
        function: a change of D from one h to the next is about ν/h. Three neighbours agree by luck now and
        then, and steps too small to move a coarse function at all agree on 0; the rest of the sweep does not.
        """
        with np.errstate(invalid="ignore"):
            change = np.abs(np.diff(self.central))
        change = np.where(np.isfinite(change), change, np.inf)
        rounding = np.maximum.accumulate((change * STEPS[:-1])[::-1])[::-1] / STEPS[:-1]
        noise = np.full(STEPS.shape, np.inf)
        noise[1:-2] = np.maximum(change[:-2] + change[1:-1], rounding[1:-1])
        return noise

    @property
    def _best(self) -> int:
        """The bottom of the V; the last steps, which have few smaller ones for comparison, are not used."""
        moved = np.isfinite(self.central) & ((self.central != 0) | ~np.any(self.central))
        return 1 + int(np.argmin(np.where(moved, self._noise, np.inf)[1:-3]))

    @property
    def slope(self) -> float:
        """The central difference at the bottom of the V."""
        return float(self.central[self._best])

    @property
    def noise(self) -> float:
        """The error estimate of the slope."""
        return float(self._noise[self._best])

    @property
    def jump(self) -> float:
        """By how much the slope to the right exceeds that to the left, as h → 0.

        Curvature makes the gap between them grow as h; two neighbouring steps cancel that.
        """
        i = self._best
        gap, ratio = self.right - self.left, STEPS[i] / STEPS[i + 1]
        return float((ratio * gap[i + 1] - gap[i]) / (ratio - 1))

    def verdict(self, claimed: float, scale: float, tolerance: float) -> str:
        """The verdict on a claimed slope: right, WRONG, KINK HERE or CANNOT TELL; errors are divided by scale."""
        settled = self.noise / scale
        if abs(self.jump) / scale > 1e-3 and abs(self.jump) > 100 * self.noise:
            return KINK
        if not settled <= max(tolerance, 1e-4):
            return UNCLEAR
        error = abs(claimed - self.slope) / scale
        if error <= max(tolerance, 3 * settled):
            return RIGHT if settled <= tolerance else UNCLEAR
        return WRONG


def sweep(subject: Subject, tensor: str, direction: HostArray, upstream: Upstream) -> Sweep:
    """Slopes of L = Σ r·y, r the upstream gradients, along a direction in a tensor (of its shape)."""
    return sweeps(subject, tensor, direction, [upstream])[0]


def sweeps(subject: Subject, tensor: str, direction: HostArray, upstreams: Sequence[Upstream]) -> list[Sweep]:
    """A sweep for each of several upstream gradients."""
    with np.errstate(all="ignore"):  # a step of 0.1 may leave the function's domain
        slopes = np.array([_one_sided(subject, tensor, direction, upstreams, h) for h in STEPS])  # (steps, K, 2)
        return [Sweep((a + b) / 2, a, b) for a, b in slopes.transpose(1, 2, 0)]


def kink(subject: Subject, tensor: str, direction: HostArray, upstream: Upstream) -> str:
    """Why there is no slope along a direction, or "". A second difference is looked at first, and a sweep only then."""
    ((ahead, behind),) = _one_sided(subject, tensor, direction, [upstream], 1e-6)
    size = max(abs(ahead), abs(behind))
    if not abs(ahead - behind) > 1e-3 * size:
        return ""
    swept = sweep(subject, tensor, direction, upstream)
    if swept.verdict(swept.slope, size, 1e-4) != KINK:
        return ""
    return f"by a sweep of h, the slopes are {swept.slope - swept.jump / 2:.3g} and {swept.slope + swept.jump / 2:.3g}"


def _one_sided(
    subject: Subject, tensor: str, direction: HostArray, upstreams: Sequence[Upstream], h: float
) -> list[list[float]]:
    """The slopes to the right and to the left, for each upstream gradient."""
    x, middle = subject.tensors[tensor], subject.outputs({})
    sides = [(step, changes_near(subject, {tensor: x + step * direction}, middle)) for step in (h, -h)]
    return [[loss_of(upstream, changes) / step for step, changes in sides] for upstream in upstreams]
