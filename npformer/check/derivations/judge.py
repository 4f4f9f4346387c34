"""Each line of a derivation against what was measured.

A line is judged by itself: the gradients above it that it uses are the measured ones, so one mistake accuses one line.
What has another name than a gradient is the author's own, and is computed as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check.derivations.cause import Cause, Claim, cause_of
from npformer.check.derivations.grammar import Derivation, Line
from npformer.check.derivations.point import Point, aligned, points_of
from npformer.check.measures import NEGLIGIBLE, max_abs
from npformer.errors import DataError
from npformer.typing import HostArray

RIGHT, WRONG, BLANK, OWN = "right", "WRONG", "not yet", "your own"
#: Relative to the largest entry: a gradient this near to the measured one is right.
TOLERANCE = 1e-7


class JudgedLine(NamedTuple):
    """A line of the backward, and what it is."""

    number: int
    name: str
    verdict: str
    problem: str = ""  # of a wrong line: its shape, or why it cannot be computed


class Judged(NamedTuple):
    """The lines; the first wrong one, with its cause; inputs whose gradient nobody derived."""

    lines: tuple[JudgedLine, ...]
    cause: Cause | None
    left: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no line is wrong, and none is still to be written."""
        return not any(line.verdict in (WRONG, BLANK) for line in self.lines)


def judge(derivation: Derivation) -> Judged:
    """Judge every line. Raises DataError if the forward cannot be computed."""
    points = points_of(derivation)
    known = [_Known(point) for point in points]
    lines, cause = list[JudgedLine](), None
    for at, line in enumerate(derivation.backward):
        last = not any(later.name == line.name for later in derivation.backward[at + 1 :])
        claims = [each.claim(line) for each in known]
        verdict, problem = _verdict(line if last else line._replace(of=None), claims, points)
        lines.append(JudgedLine(line.number, line.name, verdict, problem))
        if verdict == WRONG and cause is None:
            cause = cause_of(derivation, at, claims, [each.values for each in known], problem)
        for each, claim in zip(known, claims, strict=True):
            each.take(line, claim, last)
    derived = {line.name for line in derivation.backward}
    left = [each.name for each in derivation.inputs if each.kind != "whole" and f"d{each.name}" not in derived]
    return Judged(tuple(lines), cause, tuple(left))


class _Known:
    """What a line of the backward may use at one point."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.values: dict[str, Any] = {**point.values, f"d{point.derivation.output}": point.upstream}

    def claim(self, line: Line) -> Claim:
        """What a line gives here, and what it should."""
        if line.is_blank:
            return Claim(self.point, None, None, "")
        truth = None
        if isinstance(line.of, tuple):
            truth = aligned(self.point.slope(*line.of), np.shape(self.point.values[line.of[0]]))
        elif line.of:
            truth = self.point.truth(line.of)
        try:
            claimed = np.asarray(self.point.evaluate(line, self.values))
            if claimed.dtype.kind not in "fiub":
                raise TypeError(f"expected real numbers, got {claimed.dtype}")
        except DataError:
            raise
        except Exception as error:
            why = self.point.why_not(line, self.values, error)
            needed = "" if truth is None else f"; {line.name} is to be {self.point.named(truth.shape)}"
            return Claim(self.point, None, truth, f"it cannot be computed: {why}{needed}")
        return Claim(self.point, claimed.astype(float), truth, "")

    def take(self, line: Line, claim: Claim, last: bool) -> None:
        """Later lines use the measured gradient, or the author's own value."""
        of_gradient = isinstance(line.of, str) and last
        value: Any = claim.truth if of_gradient else claim.claimed
        if value is None and isinstance(line.of, str):
            value = self.point.truth(line.of)
        if value is not None and not isinstance(line.of, tuple):
            self.values[line.name] = value


def _verdict(line: Line, claims: Sequence[Claim], points: Sequence[Point]) -> tuple[str, str]:
    if line.is_blank:
        return BLANK, ""
    failed = next((claim.failed for claim in claims if claim.failed), "")
    if failed:
        return WRONG, failed
    if line.of is None:
        return OWN, ""
    for claim, point in zip(claims, points, strict=True):
        if claim.claimed is None or claim.truth is None:
            continue
        claimed = claim.claimed
        if isinstance(line.of, tuple):
            claimed = _spread(claimed, claim.truth)
        if claimed.shape != claim.truth.shape:
            of = f"that of {line.of}" if isinstance(line.of, str) else "that of {}, then that of {}".format(*line.of)
            return (
                WRONG,
                f"it has the shape {point.named(claimed.shape)}, expected {point.named(claim.truth.shape)}, {of}",
            )
        if not np.isfinite(claimed).all():
            return WRONG, "it is not finite"
        size = max(max_abs(claim.truth), NEGLIGIBLE * point.largest)
        if not max_abs(claimed - claim.truth) <= TOLERANCE * size:
            return WRONG, ""
    return RIGHT, ""


def _spread(x: HostArray, to: HostArray) -> HostArray:
    """A factor in the shape of another, if it broadcasts."""
    try:
        return np.broadcast_to(x, to.shape)
    except ValueError:
        return x


def to_dict(judged: Judged) -> Mapping[str, Any]:
    """For JSON."""
    cause = judged.cause
    return {
        "ok": judged.ok,
        "lines": [line._asdict() for line in judged.lines],
        "first_wrong": cause and {"line": cause.line, "name": cause.name, "sentences": list(cause.sentences)},
        "not_derived": list(judged.left),
    }
