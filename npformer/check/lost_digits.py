"""Parts lost digits from mistakes where a regime makes numbers cancel: softmax minus one, once a score is certain.

Such a gradient is off by more than the rules of ``verdict.py`` allow, though its formula is right. So what the pair's
own operations err is measured: claim and witness are computed anew with every operation of float64 moved by a rounding
(``precision/rounding.py``). An error within that is no mistake, and no right gradient either: CANNOT TELL. Of code that
does not compute in NumPy the claims are moved with their inputs alone (``jitter.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from npformer.check.jitter import Jitter
from npformer.check.look import CheckOptions, Look
from npformer.check.measures import U, max_abs, rms, terms
from npformer.check.oracles import COMPLEX_H, Oracle, unit
from npformer.check.precision.rounding import Level, Phased, Rounding
from npformer.check.report import UNCLEAR, WRONG, Report, Row
from npformer.check.subject import Called, Upstream
from npformer.typing import HostArray, HostArrays

DRAWS = 8
#: Of what was drawn: a right entry is beyond it once in some thousand times.
LIMIT = 6.0
#: Roundings are drawn so many times as large, since float64 itself holds none of the right size, and divided again.
SCALE = 8
#: So many of the largest errors of a tensor are looked at.
MOST_ENTRIES = 64
LOST = "digits are lost here: rounding of its own operations explains the error"


def without_lost_digits(look: Look, checked: Called, make: Callable[[Any], Called], how: CheckOptions) -> Report:
    """The report, in which tensors whose every error rounding explains are CANNOT TELL. make(target): its subject."""
    wrong = [row for row in look.report.rows if row.verdict == WRONG]
    if not wrong:
        return look.report
    noise = _Noise(look, checked, make, how.seed)
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

    def __init__(self, look: Look, checked: Called, make: Callable[[Any], Called], seed: int) -> None:
        self.checked, self._look, self._seed = checked, look, seed
        self._phased = Phased(checked.target)
        self._subject = make(self._phased)
        self._claims = [self._drawn(partial(self._pulled, r)) for r in look.upstreams]
        if not self._phased.is_carried or not all(self._claims):
            points = Jitter(Oracle(checked, look.upstreams), seed, DRAWS).points
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
        moved = self.checked.tensors[tensor] + 1j * COMPLEX_H * direction
        outputs = self._subject.outputs(rounding.arrays(self.checked.tensors | {tensor: moved}))
        parts = zip(self._look.upstreams[k], outputs, strict=True)
        return sum(float(np.sum(r * np.imag(np.asarray(y)))) for r, y in parts) / COMPLEX_H

    def _drawn(self, call: Callable[[Rounding], Any]) -> list[Any]:
        drawn = []
        for i in range(DRAWS):
            self._phased.rounding = rounding = Rounding([self._seed, 40, i], *[Level(SCALE * U, SCALE * U)] * 2)
            with np.errstate(all="ignore"), suppress(Exception):  # the pair may not take arrays of another class
                drawn.append(call(rounding))
        self._phased.rounding = None
        return drawn
