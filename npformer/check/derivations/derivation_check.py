"""Each line of a derivation against what was measured.

A line is judged by itself: the gradients above it that it uses are the measured ones, so one mistake accuses one line.
What has another name than a gradient is the author's own, and is computed as written.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npformer.check.derivations.cause import LineAtPoint, cause_of
from npformer.check.derivations.grammar import Derivation, DerivationLine
from npformer.check.derivations.point import DerivationPoint, aligned, points_of
from npformer.check.measures import NEGLIGIBLE, max_abs
from npformer.check.report import NOT_YET, OWN, RIGHT, WRONG, Claim, Report
from npformer.errors import DataError

#: Relative to the largest entry: a gradient this near to the measured one is right.
TOLERANCE = 1e-7


@dataclass(frozen=True, repr=False)
class JudgedDerivation(Report):
    """A claim for each line of the backward, whose reason is a wrong shape, or why it cannot be computed."""

    left: tuple[str, ...] = ()  # inputs whose gradient nobody derived

    @property
    def cause(self) -> Claim | None:
        """The first wrong line; its details say what it lacks."""
        return next((claim for claim in self.claims if claim.details), None)

    def lines(self, columns: int = 80) -> list[str]:
        """The lines with their verdicts, and what the first wrong one lacks."""
        width = max(len(claim.name) for claim in self.claims)
        lines = [f"  {claim.verdict:<8}   {claim.name:<{width}}   line {claim.line}" for claim in self.claims]
        return [*lines, *[""] * (self.ok or self.cause is not None), *self.remarks()]

    def remarks(self) -> list[str]:
        """What the first wrong line lacks; or that all are right; and what nobody derived."""
        told = [f"all {sum(claim.ok for claim in self.claims)} compared lines are right"] * self.ok
        if self.cause:
            told = [f"The first wrong line is line {self.cause.line}, {self.cause.name}."]
            told += [f"  {sentence}" for sentence in self.cause.details]
        return told + [f"not derived: {', '.join(f'd{name}' for name in self.left)}"] * bool(self.left)


def judge(derivation: Derivation) -> JudgedDerivation:
    """Judge every line. Raises DataError if the forward cannot be computed."""
    points = points_of(derivation)
    known = [{**point.values, f"d{derivation.output}": point.upstream} for point in points]
    judged, accused, told = list[Claim](), 0, tuple[str, ...]()
    for at, line in enumerate(derivation.backward):
        last = not any(later.name == line.name for later in derivation.backward[at + 1 :])
        claims = [_claim(point, line, values) for point, values in zip(points, known, strict=True)]
        verdict, problem = _verdict(line if last else line._replace(of=None), claims)
        formula = f"{line.name} = {ast.unparse(line.value)}"
        judged.append(Claim(line.name, formula, verdict, problem, line=line.number))
        if verdict == WRONG and not accused:
            accused, told = cause_of(derivation, at, claims, known, problem)
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
    lines = [replace(claim, details=told) if claim.line == accused else claim for claim in judged]
    return JudgedDerivation(derivation.path, claims=tuple(lines), left=tuple(left))


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
        return NOT_YET, ""
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
