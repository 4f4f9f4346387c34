"""What float64's own rounding explains: the last digits of witness and claim, and those that are lost in a regime.

Two measures. ``Jitter`` moves inputs and upstream gradients by at most two units in the last place and computes witness
and claim again: the changes are the s and t of ``verdict.py``, which stand in both of its rules.

Where a regime makes numbers cancel (softmax minus one, once a score is certain) that is too little, though the formula
is right: each operation inside rounds anew. So the pair runs with every operation moved by a rounding of float64
(``stochastic.py``), and over DRAWS runs

    an error |a − n| ≤ allowed + 6·(mean square of the claim's changes + that of the slope's)^½

is no mistake, and no right gradient either: CANNOT TELL. Of code that does not compute in NumPy the claims are moved
with their inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npformer.check.measures import U, max_abs, nearby, rms, terms
from npformer.check.oracles import Oracle, slope_of, unit
from npformer.check.report import UNCLEAR, Report, Row
from npformer.check.rounding.stochastic import Level, Phased, Rounding
from npformer.check.subject import Subject, Upstream
from npformer.typing import HostArray, HostArrays

if TYPE_CHECKING:
    from npformer.check.look import CheckOptions, Look

DRAWS = 8
MOVE = 4 * U  # two units in the last place of a number just below a power of two
#: In standard deviations of what was drawn: a right entry is beyond it once in some thousand times.
LIMIT = 6.0
#: Roundings are drawn so many times as large, since float64 itself holds none of the right size, and divided again.
SCALE = 8
#: So many of the largest errors of a tensor are looked at.
MOST_ENTRIES = 64
LOST = "digits are lost here: rounding of its own operations explains the error"


class Jitter:
    """The point of a check, moved by at most two units in the last place, with its upstream gradients."""

    def __init__(self, oracle: Oracle, seed: int, draws: int = DRAWS) -> None:
        self._oracle, self._seed, self._draws = oracle, seed, draws
        self.outputs = oracle.subject.outputs({})

    @cached_property
    def points(self) -> list[tuple[HostArrays, list[Upstream], list[HostArrays]]]:
        """(tensors, upstream gradients, the gradients claimed there) of each draw."""
        rng, subject, points = np.random.default_rng([self._seed, 3]), self._oracle.subject, []
        for _ in range(self._draws):
            at = {tensor: nearby(x, MOVE, rng) for tensor, x in subject.tensors.items()}
            upstreams = [tuple(nearby(r, MOVE, rng) for r in upstream) for upstream in self._oracle.upstreams]
            with suppress(Exception):  # a boundary of the domain is that near
                points.append((at, upstreams, [subject.gradients(upstream, at) for upstream in upstreams]))
        return points

    def noise(self, tensor: str, direction: HostArray, true: HostArray, claimed: HostArray, cap: float) -> HostArray:
        """s + t of ``verdict.py`` along a direction, with its slope and claim, each (K,): t up to its cap."""
        of_witness, of_claim = [np.zeros(len(claimed))], [np.zeros(len(claimed))]
        for at, upstreams, gradients in self.points:
            if self._oracle.use_complex:
                there = Oracle(self._oracle.subject, upstreams).complex_step(tensor, direction, at)
                of_witness.append(np.abs(there.value - true))
            of_claim.append(np.abs(np.array([_along(direction, claim[tensor]) for claim in gradients]) - claimed))
        return np.asarray(np.max(of_witness, axis=0) + np.minimum(np.max(of_claim, axis=0), cap))

    def of_claims(self, tensor: str, claimed: HostArray) -> HostArray:
        """The largest change of each entry of a claim, for the first upstream gradient."""
        moved = [np.abs(gradients[0][tensor] - claimed) for _, _, gradients in self.points]
        return np.asarray(np.max([np.zeros(claimed.shape), *moved], axis=0))

    def fresh(self, tensor: str, direction: HostArray, count: int) -> tuple[HostArray, HostArray, HostArray]:
        """(error, reach, error estimate of the witness) along a direction, for new upstream gradients."""
        rng, subject = np.random.default_rng([self._seed, 4]), self._oracle.subject
        like = list(zip(self.outputs, self._oracle.upstreams[0], strict=True))
        upstreams = [
            tuple(np.asarray(rng.normal(size=y.shape)) * bool(np.any(r)) for y, r in like) for _ in range(count)
        ]
        oracle = Oracle(subject, upstreams, self._oracle.use_complex)
        slope = oracle.complex_step(tensor, direction) if oracle.use_complex else oracle.extrapolated(tensor, direction)
        claimed = np.array([_along(direction, subject.gradients(upstream)[tensor]) for upstream in upstreams])
        return np.abs(claimed - slope.value), slope.reach, slope.error


def _along(direction: HostArray, gradient: HostArray) -> float:
    """The sum of a gradient's entries times the direction's; entries where the direction is 0 do not count."""
    moved = direction != 0
    return float(np.sum(direction[moved] * gradient[moved]))


def without_lost_digits(look: Look, checked: Subject, how: CheckOptions) -> Report:
    """The report, in which tensors whose every error rounding explains are CANNOT TELL."""
    wrong = look.report.wrong
    if not wrong:
        return look.report
    noise = _Noise(look, checked, how.seed)
    lost = {row.tensor: {"verdict": UNCLEAR, "note": LOST} for row in wrong if _is_lost(row, look, noise, how)}
    return look.report.changed(lost)


def _is_lost(row: Row, look: Look, noise: _Noise, how: CheckOptions) -> bool:
    evidence, directions = look.evidence[row.tensor], look.directions.get(row.tensor)
    claims = np.array([claim[row.tensor] for claim in look.claims])
    if directions is not None:
        claims = np.array([[np.sum(g * d) for d in directions] for g in claims])
    error = np.abs(claims - evidence.truth)
    x, outputs = noise.checked.tensors[row.tensor], noise.checked.outputs({})
    largest = max(max_abs(evidence.truth), max(terms(r, outputs) for r in look.upstreams) / (rms(x) or 1.0))
    worth = 0 if evidence.by_complex is not None else 8 * evidence.central_error
    allowed = how.tolerance * np.minimum(row.scale, evidence.reach) + 64 * U * largest + worth
    if directions is not None:
        allowed = np.full_like(error, how.tolerance * row.scale) + worth
    if not np.all(np.isfinite(error)):
        return False
    for place in sorted(map(tuple, np.argwhere(error > allowed)), key=lambda place: -error[place])[:MOST_ENTRIES]:
        direction = unit(x.shape, place[1:]) if directions is None else directions[place[1]]
        if error[place] > allowed[place] + noise.along(row.tensor, direction, int(place[0])):
            return False
    return True


class _Noise:
    """What claims and slopes err by the rounding of the pair's own operations."""

    def __init__(self, look: Look, checked: Subject, seed: int) -> None:
        self.checked, self._look, self._seed = checked, look, seed
        self._phased = Phased(checked.target)
        self._subject = checked.of(self._phased)
        self._claims = [self._drawn(partial(self._pulled, r)) for r in look.upstreams]
        if not self._phased.is_carried or not all(self._claims):
            points = Jitter(Oracle(checked, look.upstreams), seed).points
            moved = [[gradients[k] for _, _, gradients in points] for k in range(len(look.upstreams))]
            self._claims = [
                [{name: c[name] + SCALE * (draw[name] - c[name]) for name in draw} for draw in draws]
                for c, draws in zip(look.claims, moved, strict=True)
            ]

    def along(self, tensor: str, direction: HostArray, k: int) -> float:
        """LIMIT times the rounding along a direction, for one upstream gradient."""
        of_claim = [np.sum((draw[tensor] - self._look.claims[k][tensor]) * direction) for draw in self._claims[k]]
        of_slope = [0.0]
        if self._look.is_complex:
            exact = Oracle(self.checked, [self._look.upstreams[k]]).complex_step(tensor, direction).value[0]
            of_slope = [slope - exact for slope in self._drawn(partial(self._slope, tensor, direction, k))] or of_slope
        return LIMIT / SCALE * float(np.sqrt(np.mean(np.square(of_claim)) + np.mean(np.square(of_slope))))

    def _pulled(self, upstream: Upstream, rounding: Rounding) -> HostArrays:
        return self._subject.gradients(tuple(map(rounding.of, upstream)), rounding.arrays(self.checked.tensors))

    def _slope(self, tensor: str, direction: HostArray, k: int, rounding: Rounding) -> float:
        tensors = rounding.arrays(self.checked.tensors)
        return slope_of(self._subject, self._look.upstreams[k], tensors, tensor, direction)

    def _drawn(self, call: Callable[[Rounding], Any]) -> list[Any]:
        drawn = []
        for i in range(DRAWS):
            rounding = Rounding([self._seed, 40, i], *[Level(SCALE * U, SCALE * U)] * 2)
            with np.errstate(all="ignore"), suppress(Exception):  # the pair may not take arrays of another class
                drawn.append(self._phased.run(rounding, partial(call, rounding)))
        return drawn
