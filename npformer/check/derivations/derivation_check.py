"""Each line of a derivation against what was measured.

A line is judged by itself: the gradients above it that it uses are the measured ones, so one mistake accuses one line.
What has another name than a gradient is the author's own, and is computed as written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check.derivations.cause import LineAtPoint, WrongLine, cause_of
from npformer.check.derivations.grammar import Derivation, DerivationLine
from npformer.check.derivations.point import DerivationPoint, aligned, points_of
from npformer.check.measures import NEGLIGIBLE, max_abs
from npformer.errors import DataError

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
    cause: WrongLine | None
    left: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no line is wrong, and none is still to be written."""
        return not any(line.verdict in (WRONG, BLANK) for line in self.lines)


def judge(derivation: Derivation) -> Judged:
    """Judge every line. Raises DataError if the forward cannot be computed."""
    points = points_of(derivation)
    known = [{**point.values, f"d{derivation.output}": point.upstream} for point in points]
    lines, cause = list[JudgedLine](), None
    for at, line in enumerate(derivation.backward):
        last = not any(later.name == line.name for later in derivation.backward[at + 1 :])
        claims = [_claim(point, line, values) for point, values in zip(points, known, strict=True)]
        verdict, problem = _verdict(line if last else line._replace(of=None), claims)
        lines.append(JudgedLine(line.number, line.name, verdict, problem))
        if verdict == WRONG and cause is None:
            cause = cause_of(derivation, at, claims, known, problem)
        for values, claim in zip(known, claims, strict=True):
            is_measured = claim.claimed is None or (line.of and last)
            if not isinstance(line.of, tuple) and (value := claim.truth if is_measured else claim.claimed) is not None:
                values[line.name] = value
    derived = {line.name for line in derivation.backward}
    left = [
        each.name
        for each in derivation.inputs
        if each.kind != "whole" and each.shape and f"d{each.name}" not in derived
    ]
    return Judged(tuple(lines), cause, tuple(left))


def _claim(point: DerivationPoint, line: DerivationLine, values: Mapping[str, Any]) -> LineAtPoint:
    """What a line gives at a point, and what it should."""
    truth, claimed, failed = None, None, ""
    if isinstance(line.of, tuple):
        truth = aligned(point.slope(*line.of), np.shape(point.values[line.of[0]]))
    elif line.of:
        truth = point.truth(line.of)
    try:
        claimed = None if line.is_blank else np.asarray(point.evaluate(line, values)).astype(float, casting="same_kind")
    except DataError:
        raise
    except Exception as error:
        needed = "" if truth is None else f"; {line.name} is to be {point.named(truth.shape)}"
        failed = f"it cannot be computed: {point.why_not(line, values, error)}{needed}"
    return LineAtPoint(point, claimed, truth, failed)


def _verdict(line: DerivationLine, claims: Sequence[LineAtPoint]) -> tuple[str, str]:
    if line.is_blank:
        return BLANK, ""
    for point, claimed, truth, failed in claims:
        if failed:
            return WRONG, failed
        if line.of is None or claimed is None or truth is None:
            continue
        if isinstance(line.of, tuple):
            with contextlib.suppress(ValueError):  # a factor need not have the whole shape
                claimed = np.broadcast_to(claimed, truth.shape)
        if claimed.shape != truth.shape:
            of = " and then ".join(f"that of {name}" for name in np.ravel(line.of))
            return WRONG, f"it has the shape {point.named(claimed.shape)}, expected {point.named(truth.shape)}, {of}"
        if not np.isfinite(claimed).all():
            return WRONG, "it is not finite"
        if not max_abs(claimed - truth) <= TOLERANCE * max(max_abs(truth), NEGLIGIBLE * point.largest):
            return WRONG, ""
    return RIGHT if line.of else OWN, ""


def to_dict(judged: Judged) -> Mapping[str, Any]:
    """For JSON."""
    return {
        "ok": judged.ok,
        "lines": [line._asdict() for line in judged.lines],
        "first_wrong": judged.cause and judged.cause._asdict(),
        "not_derived": judged.left,
    }
