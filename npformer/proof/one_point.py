"""The check at one point: witnesses, verdicts, other requirements on a backward, and causes of wrong gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npformer.backend import Device
from npformer.errors import DTypeError, ShapeError
from npformer.progress_bar import Bar
from npformer.proof import behaviour
from npformer.proof.checkable import Checkable
from npformer.proof.clues import clues_of, with_reference
from npformer.proof.diagnosis import UNKNOWN, Clues, Diagnosis, diagnose, is_vague
from npformer.proof.fitness import Fitness, culprit_of, fitness
from npformer.proof.judge import Judge
from npformer.proof.measures import largest, max_abs, terms
from npformer.proof.oracles import Oracle
from npformer.proof.prepared import Constants
from npformer.proof.regions import region_of
from npformer.proof.repairs import repairs_of
from npformer.proof.repeats import CONFIRMING, MOST_RUNS, PLACES_FOR_A_RUN, Repeats
from npformer.proof.report import NOTHING, RIGHT, UNCLEAR, WRONG, Report, Row
from npformer.proof.subject import Subject, Upstream, subject
from npformer.proof.symmetric import with_structure
from npformer.proof.vacuity import not_finite, refuse_length_one, why_blind
from npformer.typing import HostArray, HostArrays

#: Up to this many elements each one is checked; in larger tensors, random directions.
MANY_ELEMENTS = 2000
DIRECTIONS = 2
UPSTREAMS = 3
NO_LINE = "check a torch.autograd.Function or a jax.custom_vjp by itself, or as a NumPy pair, and a line may be named"


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
    repeat: int | None  # runs of the backward; None: a few
    device: Device | None
    names: Sequence[str] | None
    options: dict[str, Any]
    constant: Constants = ()

    def elsewhere(self) -> How:
        """The options for another point of the same check: causes are reported once."""
        return replace(self, why=False)


def at_one_point(target: Any, inputs: Sequence[Any], how: How) -> Report:
    """The whole check at one point."""
    checked = with_structure(subject(target, inputs, how.options, how.device, how.names), how.structure)
    _expect_something(checked)
    if not how.allow_length_one:
        refuse_length_one(inputs, checked.input_names)
    if (nowhere := not_finite(checked)) is not None:
        return replace(nowhere, notes=tuple(behaviour.notes(checked)))
    small = sum(x.size for x in checked.tensors.values()) <= MANY_ELEMENTS
    upstreams = random_upstreams(checked, how.seed, UPSTREAMS if small else 2)
    claims = [checked.gradients(upstream) for upstream in upstreams]
    without = checked.inputs.none
    expect_fitting(checked, claims[0])
    each = small if how.elementwise is None else how.elementwise
    report = _judged(checked, upstreams, claims, {} if each else random_directions(checked, how.seed), how)
    if report.rows and all(row.verdict == NOTHING for row in report.rows):
        return report
    if how.why and "not deterministic" not in str(report.problems) and any(r.verdict == WRONG for r in report.rows):
        clues = with_reference(clues_of(target, inputs, how.options), checked, inputs, how.options, upstreams[0])
        report = _diagnosed(report, checked, claims, upstreams, how, clues)
    blind = why_blind({n: checked.tensors[n] for n in checked.input_names if n in checked.tensors})
    report = replace(report, rows=tuple(_with_none(row) if row.tensor in without else row for row in report.rows))
    return _proving_nothing([row for row in report.rows if row.ok], report, blind) if blind else report


def _with_none(row: Row) -> Row:
    """The row of a tensor for which backward returned None, with what that means."""
    if row.verdict not in (RIGHT, WRONG):
        return row
    what = "is 0" if row.ok else "is not 0; name it in constant= if it wants none"
    return replace(row, note=f"backward returned None for {row.tensor}, whose gradient {what}", cause="", diagnosis="")


def _judged(
    checked: Subject,
    upstreams: list[Upstream],
    claims: list[HostArrays],
    directions: dict[str, list[HostArray]],
    how: How,
) -> Report:
    """A row for each tensor, without a diagnosis; those without directions are checked element by element."""
    fit = fitness(checked, upstreams, how.seed) if how.complex_step else Fitness(False, "")
    oracle = Oracle(checked, upstreams, fit.is_fit)
    rounding = max(how.tolerance, 64 * oracle.rounding)
    repeats = [Repeats(checked, r, claim, rounding) for r, claim in zip(upstreams, claims, strict=True)]
    problems = behaviour.problems(checked, upstreams, claims[0], oracle.rounding, repeats[0])
    places = sum(len(directions[name]) if directions else checked.tensors[name].size for name in claims[0])
    with Bar("gradcheck", places, after=1) as bar:
        oracle.on_place = bar.move
        evidence = {
            name: oracle.along_directions(name, directions[name]) if directions else oracle.every_element(name)
            for name in claims[0]
        }
    most = np.max([[max_abs(n) for n in found.truth] for found in evidence.values()], axis=0)
    judge = Judge(oracle, most, how.tolerance, how.explain, lambda: not culprit_of(checked), how.seed)
    rows = []
    for tensor, found in evidence.items():
        full = np.array([each[tensor] for each in claims])
        along = directions.get(tensor)
        claimed = full if along is None else np.array([[np.sum(g * d) for d in along] for g in full])
        row = judge.row(tensor, claimed, found, along)
        if along is not None and checked.tensors[tensor].size > MANY_ELEMENTS:
            row = region_of(row, oracle, tensor, full[0], how.tolerance)
        rows.append(row)
    if not problems:
        repeats[0].run(how.repeat or min(MOST_RUNS, 2 + places // PLACES_FOR_A_RUN))
    report = _confirmed(Report("", tuple(rows), tuple(problems)), repeats)
    notes = [*behaviour.notes(checked), *repeats[0].notes(how.repeat is not None), *filter(None, [fit.why])]
    report = replace(report, notes=tuple(notes))
    noise = _noise(checked, upstreams[0])
    if most[0] <= noise and largest(claims[0].values()) <= noise:
        return _proving_nothing(report.rows, report, "every gradient of this check is 0")
    return report


def _confirmed(report: Report, repeats: list[Repeats]) -> Report:
    """The report after more runs for what is WRONG."""
    for k in sorted({row.upstream for row in report.rows if row.verdict == WRONG}):
        repeats[k].run(repeats[k].runs + CONFIRMING)
    return without_verdict(report, *repeats)


def without_verdict(report: Report, *repeats: Repeats) -> Report:
    """The report, in which a tensor whose gradient changes from run to run has no verdict."""
    faulty = [each for each in repeats if each.faulty][:1]
    problems = dict.fromkeys([*report.problems, *(problem for each in faulty for problem in each.problems)])
    changing, note = set().union(*(each.faulty for each in repeats)), "another gradient at each run"
    rows = (replace(r, verdict=UNCLEAR, note=note, region="") if r.tensor in changing else r for r in report.rows)
    return replace(report, rows=tuple(rows), problems=tuple(problems))


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


def expect_fitting(checked: Subject, gradients: HostArrays) -> None:
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


def _diagnosed(
    report: Report, checked: Subject, claims: list[HostArrays], upstreams: list[Upstream], how: How, clues: Clues
) -> Report:
    """The report with an explanation in each wrong row that is small enough to be examined entry by entry."""
    use_complex = how.complex_step and not any("complex step was dropped" in note for note in report.notes)
    wrong = [row.tensor for row in report.rows if row.verdict == WRONG]
    small = [row for row in report.rows if row.elements <= MANY_ELEMENTS]
    known = [row.tensor for row in small if not row.by_direction or not row.ok]
    evidence = {tensor: Oracle(checked, upstreams, use_complex).every_element(tensor).truth for tensor in known}
    truths = [{tensor: found[k] for tensor, found in evidence.items()} for k in range(len(upstreams))]
    found = diagnose({tensor: claims[0][tensor] for tensor in known}, truths[0], clues)
    vague = [tensor for tensor in wrong if tensor in known and is_vague(found.get(tensor))]
    if vague and len(known) == len(report.rows):
        for repair in repairs_of(checked, upstreams, truths, wrong):
            found |= {tensor: Diagnosis(repair.cause, repair.text) for tensor in repair.fixes if tensor in vague}
    if isinstance(clues.target, Checkable) and clues.target.owner is None:
        found |= {t: UNKNOWN._replace(text=f"{UNKNOWN.text}; {NO_LINE}") for t in wrong if found.get(t) == UNKNOWN}
    rows = tuple(
        replace(row, cause=found[row.tensor].cause, diagnosis=found[row.tensor].text)
        if row.tensor in wrong and row.tensor in found
        else row
        for row in report.rows
    )
    return replace(report, rows=rows)
