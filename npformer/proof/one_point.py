"""The check at one point: witnesses, verdicts, other requirements on a backward, and causes of wrong gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device
from npformer.errors import DTypeError, ShapeError
from npformer.proof import behaviour
from npformer.proof.checkable import Checkable
from npformer.proof.clues import clues_of, with_reference
from npformer.proof.diagnosis import UNKNOWN, Clues, Diagnosis, diagnose, is_vague
from npformer.proof.fitness import Fitness, culprit_of, fitness
from npformer.proof.judge import Judge
from npformer.proof.measures import largest, max_abs, terms
from npformer.proof.oracles import Evidence, Oracle
from npformer.proof.regions import region_of
from npformer.proof.repairs import Elsewhere, Point, plain, repairs_of
from npformer.proof.report import NOTHING, WRONG, Report, Row
from npformer.proof.subject import Subject, Upstream, subject
from npformer.proof.symmetric import with_structure
from npformer.proof.vacuity import refuse_length_one, why_blind
from npformer.typing import HostArray, HostArrays

#: Up to this many elements each one is checked; in larger tensors, random directions.
MANY_ELEMENTS = 2000
DIRECTIONS = 2
UPSTREAMS = 3
#: How often a wrong backward runs to see whether it is deterministic.
RUNS = 8


@dataclass(frozen=True)
class How:
    """Options of the check at a point: gradcheck's options of these names."""

    seed: int
    elementwise: bool | None
    complex_step: bool
    tolerance: float
    structure: str | Mapping[str, str] | None
    allow_length_one: bool
    explain: bool
    why: bool  # look for the causes of errors
    device: Device | None
    names: Sequence[str] | None
    options: dict[str, Any]

    def elsewhere(self) -> How:
        """The options for another point of the same check: causes are reported once."""
        return replace(self, why=False)


def at_one_point(target: Any, inputs: Sequence[Any], how: How) -> Report:
    """The whole check at one point."""
    checked = with_structure(subject(target, inputs, how.options, how.device, how.names), how.structure)
    _expect_something(checked)
    if not how.allow_length_one:
        refuse_length_one(inputs, checked.input_names)
    looked = _looked_at(checked, how)
    report = looked.report
    if report.rows and all(row.verdict == NOTHING for row in report.rows):
        return report
    if how.why and any(row.verdict == WRONG for row in report.rows):
        clues = clues_of(target, inputs, how.options)
        clues = with_reference(clues, checked, inputs, how.options, looked.upstreams[0])
        report = _diagnosed(checked, looked, how, clues)
    blind = why_blind({n: checked.tensors[n] for n in checked.input_names if n in checked.tensors})
    return _proving_nothing([row for row in report.rows if row.ok], report, blind) if blind else report


_Directions = dict[str, list[HostArray]]


class _Look(NamedTuple):
    """What a check saw at one point."""

    report: Report  # without a diagnosis
    upstreams: list[Upstream]
    claims: list[HostArrays]
    directions: _Directions
    evidence: dict[str, Evidence]
    is_complex: bool  # whether the complex step is a witness

    @property
    def verdicts(self) -> dict[str, str]:
        return {row.tensor: row.verdict for row in self.report.rows}


def _looked_at(checked: Subject, how: How) -> _Look:
    """A row for each tensor, without a diagnosis; those without directions are checked element by element."""
    small = sum(x.size for x in checked.tensors.values()) <= MANY_ELEMENTS
    upstreams = random_upstreams(checked, how.seed, UPSTREAMS if small else 2)
    claims = [checked.gradients(upstream) for upstream in upstreams]
    _expect_fitting(checked, claims[0])
    each = small if how.elementwise is None else how.elementwise
    directions = {} if each else random_directions(checked, how.seed)
    fit = fitness(checked, upstreams, how.seed) if how.complex_step else Fitness(False, "")
    oracle = Oracle(checked, upstreams, fit.is_fit)
    problems = behaviour.problems(checked, upstreams, claims[0], oracle.rounding)
    evidence = {
        name: oracle.along_directions(name, directions[name]) if directions else oracle.every_element(name)
        for name in claims[0]
    }
    rows = _rows(oracle, evidence, claims, directions, how)
    notes = behaviour.notes(checked) + ([fit.why] if fit.why else [])
    report = Report("", tuple(rows), tuple(problems), tuple(notes))
    noise = _noise(checked, upstreams[0])
    if largest(e.truth[0] for e in evidence.values()) <= noise and largest(claims[0].values()) <= noise:
        report = _proving_nothing(report.rows, report, "every gradient of this check is 0")
    return _Look(report, upstreams, claims, directions, evidence, fit.is_fit)


def _rows(
    oracle: Oracle, evidence: dict[str, Evidence], claims: list[HostArrays], directions: _Directions, how: How
) -> list[Row]:
    most = np.max([[max_abs(n) for n in found.truth] for found in evidence.values()], axis=0)
    judge = Judge(oracle, most, how.tolerance, how.explain, lambda: not culprit_of(oracle.subject), how.seed)
    rows = []
    for tensor, found in evidence.items():
        full = np.array([each[tensor] for each in claims])
        along = directions.get(tensor)
        claimed = full if along is None else np.array([[np.sum(g * d) for d in along] for g in full])
        row = judge.row(tensor, claimed, found, along)
        if along is not None and oracle.subject.tensors[tensor].size > MANY_ELEMENTS:
            row = region_of(row, oracle, tensor, full[0], how.tolerance)
        rows.append(row)
    return rows


def _noise(checked: Subject, upstream: Upstream) -> float:
    """Gradients below this are 0 except for the rounding of the terms of L = Σ r·y."""
    return 1e-13 * terms(upstream, checked.outputs({}))


def _proving_nothing(rows: Sequence[Row], report: Report, why: str) -> Report:
    """The report with these rows marked as proving nothing."""
    meant = {row.tensor for row in rows}
    changed = (
        replace(r, verdict=NOTHING, note=why, cause="", diagnosis="") if r.tensor in meant else r for r in report.rows
    )
    return replace(report, rows=tuple(changed))


def _expect_something(checked: Subject) -> None:
    """Raise ShapeError if there is no tensor to check, or an empty one."""
    if not checked.tensors:
        raise ShapeError(
            "inputs: expected at least one array of floats, or a target with parameters, got nothing to check; "
            "integers and lists are passed on unchecked: np.asarray(x, dtype=float) makes an array of floats"
        )
    for tensor, value in checked.tensors.items():
        if value.size == 0:
            raise ShapeError(
                f"{tensor}: expected at least one element, got {value.shape}; an empty check proves nothing"
            )


def _expect_fitting(checked: Subject, gradients: HostArrays) -> None:
    """Raise ShapeError or DTypeError unless every gradient has the shape of its tensor and is float64."""
    for tensor, value in checked.tensors.items():
        gradient = gradients[tensor]
        if gradient.shape != value.shape:
            hint = _order_hint(checked, gradients) or _hint(value, gradient)
            raise ShapeError(f"gradient of {tensor}: expected {value.shape}, got {gradient.shape}{hint}")
        if gradient.dtype != value.dtype:
            raise DTypeError(f"gradient of {tensor}: expected float64, as the input was given, got {gradient.dtype}")


def _order_hint(checked: Subject, gradients: HostArrays) -> str:
    """A hint if the shapes are those of the inputs in another order."""
    names = [name for name in checked.input_names if name in gradients]
    expected, got = ([x[name].shape for name in names] for x in (checked.tensors, gradients))
    if expected == got or sorted(expected) != sorted(got):
        return ""
    moved = [name for name, one, other in zip(names, expected, got, strict=True) if one != other]
    return f"; are those of {', '.join(moved)} in another order? backward returns them in the order {', '.join(names)}"


def _hint(value: HostArray, gradient: HostArray) -> str:
    """A hint if the shapes differ only by axes of length 1, or if an axis was not summed."""
    if gradient.size == value.size:
        return "; the numbers may be right: reshape them, or sum without keepdims"
    if gradient.ndim >= value.ndim and gradient.size > value.size:
        return "; sum over the axes along which the input was broadcast"
    return ""


def random_upstreams(checked: Subject, seed: int, count: int = UPSTREAMS) -> list[Upstream]:
    """Several random gradients of the outputs, each a tuple with one for every output.

    Not drawn from ``default_rng(seed)`` itself: inputs often are, and dy = x is a special point.
    """
    shapes = [y.shape for y in checked.outputs({})]
    rngs = [np.random.default_rng([seed, 5, k]) for k in range(count)]
    return [tuple(np.asarray(rng.normal(size=shape)) for shape in shapes) for rng in rngs]


def random_directions(checked: Subject, seed: int) -> dict[str, list[HostArray]]:
    """A few directions for each tensor: a direction over all tensors would hide a small bias beside a large matrix."""
    rng = np.random.default_rng([seed, 1])
    return {
        tensor: [np.asarray(rng.normal(size=x.shape)) for _ in range(DIRECTIONS)]
        for tensor, x in checked.tensors.items()
    }


def _diagnosed(checked: Subject, look: _Look, how: How, clues: Clues) -> Report:
    """The report with an explanation in each wrong row; patterns are read from small tensors alone."""
    report, checked = look.report, plain(checked)
    oracle = Oracle(checked, look.upstreams, look.is_complex)
    wrong = [row.tensor for row in report.rows if row.verdict == WRONG]
    small = [row for row in report.rows if row.elements <= MANY_ELEMENTS]
    known = [row.tensor for row in small if not row.by_direction or not row.ok]
    truth = {t: (oracle.every_element(t) if look.directions else look.evidence[t]).truth[0] for t in known}
    found = diagnose({tensor: look.claims[0][tensor] for tensor in known}, truth, clues)

    def verdicts(point: Subject) -> dict[str, str]:
        """The verdicts with the backward as it is now, along directions at another point."""
        if point is not checked:
            return _looked_at(point, replace(how, elementwise=False)).verdicts
        claims = [checked.gradients(upstream) for upstream in look.upstreams]
        return {row.tensor: row.verdict for row in _rows(oracle, look.evidence, claims, look.directions, how)}

    runs = [checked.gradients(look.upstreams[0]) for _ in range(RUNS)]
    if not all(_is_same(runs[0], run) for run in runs):
        text = "backward gives other gradients each time, so no cause was looked for"
        return _with_causes(report, dict.fromkeys(wrong, Diagnosis(UNKNOWN.cause, text)))
    truths = [{t: evidence.truth[k] for t, evidence in look.evidence.items()} for k in range(len(look.upstreams))]
    others = cache(lambda: list(_alike(checked, wrong, how.seed, verdicts)))
    found = _with_lines(found, Point(checked, look.upstreams, truths, look.directions, others, verdicts), wrong)
    return _with_causes(report, found)


def _with_causes(report: Report, found: Mapping[str, Diagnosis]) -> Report:
    rows = (
        replace(row, cause=found[row.tensor].cause, diagnosis=found[row.tensor].text) if row.tensor in found else row
        for row in report.rows
    )
    return replace(report, rows=tuple(rows))


def _is_same(a: HostArrays, b: HostArrays) -> bool:
    """Whether two runs gave the same gradients, up to the order of their sums."""
    return all(np.allclose(a[name], b[name], rtol=0, atol=1e-12 * max_abs(a[name]), equal_nan=True) for name in a)


def _with_lines(found: Mapping[str, Diagnosis], point: Point, wrong: Sequence[str]) -> dict[str, Diagnosis]:
    """The diagnoses of the wrong tensors, with the change that makes them right, or what else is known.

    A clear one of npformer's own code has its line, or needs none.
    """
    vague = [tensor for tensor in wrong if is_vague(found.get(tensor))]
    target: Any = getattr(point.subject, "inner", point.subject).target  # type: ignore[union-attr]
    is_own = str(getattr(target.backward, "__module__", "")).startswith("npformer.") and not isinstance(
        target, Checkable
    )
    repairs, remarks = ([], []) if is_own and not vague else repairs_of(point, wrong, is_brief=not vague)
    known = {tensor: found.get(tensor, UNKNOWN) for tensor in wrong}
    for tensor in wrong:
        repair = next((each for each in repairs if tensor in each.fixes), None)
        if repair is None and tensor in vague:
            known[tensor] = known[tensor]._replace(text="; ".join([known[tensor].text, *remarks]))
        elif repair is not None:
            cause, text, _ = known[tensor]
            if tensor in vague or cause == repair.cause:
                cause = text = repair.cause
            known[tensor] = Diagnosis(cause, f"{text}: {repair.place}")
    return known


def _alike(
    checked: Subject, wrong: Sequence[str], seed: int, verdicts: Callable[[Subject], dict[str, str]]
) -> Iterator[Subject]:
    """Other points where what is right is right, too: elsewhere the backward may not be meant to be."""
    for other in Elsewhere(checked, seed).subjects():
        with suppress(Exception):  # a step out of the forward's domain
            if all(verdict != WRONG or tensor in wrong for tensor, verdict in verdicts(other).items()):
                yield other
