"""A look at one point: witnesses, verdicts, and other requirements on a backward, without causes."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import Device
from npformer.check import behaviour
from npformer.check.behaviour import CONFIRMING, MOST_RUNS, PLACES_FOR_A_RUN, Repeats
from npformer.check.checkable import Checkable
from npformer.check.fitness import Fitness, culprit_of, fitness
from npformer.check.measures import direction_in, max_abs, rms, terms
from npformer.check.oracles import Evidence, Oracle
from npformer.check.prepared import Constants, is_output
from npformer.check.regions import region_of
from npformer.check.report import KINK, NOTHING, UNCLEAR, WRONG, Report, Row
from npformer.check.subject import BackwardFailed, Subject, Upstream
from npformer.check.verdict import TIED, TOLERANCE, Judge
from npformer.errors import ConfigError, DTypeError, ShapeError
from npformer.io.progress_bar import Bar
from npformer.typing import HostArray, HostArrays, Values

#: Up to this many elements each one is checked; in larger tensors, random directions.
MANY_ELEMENTS = 2000
DIRECTIONS = 2
UPSTREAMS = 3
Directions = dict[str, list[HostArray]]


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of the check at a point: gradcheck's options of these names."""

    seed: int = 0
    elementwise: bool | None = None
    complex_step: bool = True
    tolerance: float = TOLERANCE
    structure: str | Mapping[str, str] | None = None
    allow_length_one: bool = False
    why: bool = True  # look for the causes of errors
    repeat: int | None = None  # runs of the backward; None: a few
    device: Device | None = None
    names: Sequence[str] | None = None
    constant: Constants = ()
    reference: Any = None
    precision: str | None = None
    accumulate: str | None = None
    options: Values = field(default_factory=dict)
    in_regime: bool = False  # digits may be lost at this point: rounding is told from mistakes

    @property
    def is_low(self) -> bool:
        """Whether the target is judged in its own precision, against a reference or its own forward."""
        return any(setting is not None for setting in (self.reference, self.precision, self.accumulate))


class OtherPrecision(DTypeError):
    """A gradient is not float64. is_everywhere: all have this one dtype, which a check has a precision for."""

    def __init__(self, tensor: str, gradients: HostArrays, inputs: Container[str]) -> None:
        self.dtype = str(gradients[tensor].dtype)
        kinds = {str(gradient.dtype) for name, gradient in gradients.items() if name in inputs}
        self.is_everywhere = kinds in ({"float32"}, {"float16"})
        way = f'; for a pair that computes in {self.dtype}: precision="{self.dtype}", or reference= with one in float64'
        super().__init__(f"gradient of {tensor}: expected float64, as the input was given, got {self.dtype}{way}")


class Look(NamedTuple):
    """What a check saw at one point."""

    report: Report  # without a diagnosis
    upstreams: list[Upstream]
    claims: list[HostArrays]
    directions: Directions
    evidence: dict[str, Evidence]
    is_complex: bool  # whether the complex step is a witness

    @property
    def verdicts(self) -> dict[str, str]:
        return {row.tensor: row.verdict for row in self.report.rows}


def look_at(checked: Subject, how: CheckOptions) -> Look:
    """A row for each tensor, without a diagnosis; those without directions are checked element by element."""
    small = checked.elements <= MANY_ELEMENTS
    upstreams = upstreams_of(checked, how, UPSTREAMS if small else 2)
    claims = [checked.gradients(upstream) for upstream in upstreams]
    expect_fitting(checked, claims[0])
    elementwise = small if how.elementwise is None else how.elementwise
    directions = {} if elementwise else random_directions(checked, how.seed)
    fit = fitness(checked, upstreams, how.seed) if how.complex_step else Fitness(False, "")
    oracle = Oracle(checked, upstreams, fit.is_fit)
    rounding = max(how.tolerance, 64 * oracle.rounding)
    repeats = [Repeats(checked, r, claim, rounding) for r, claim in zip(upstreams, claims, strict=True)]
    problems: list[str] = []
    # gradients that, times the size of x, are below this are 0 but for the rounding of the terms of L = Σ r·y
    noise = 1e-13 * (terms(upstreams[0], checked.outputs({})) or max(map(max_abs, upstreams[0])))
    sizes = {name: rms(x) or 1.0 for name, x in checked.tensors.items()}
    is_moved = any(max_abs(g) * sizes[name] > noise for name, g in claims[0].items())
    if not how.in_regime and is_moved:  # what the code owes is asked once
        problems = behaviour.problems(checked, upstreams, claims[0], oracle.rounding, repeats[0])
    places = sum(len(directions[name]) if directions else checked.tensors[name].size for name in claims[0])
    with Bar("gradcheck", places, after=1) as bar:
        oracle.on_place = bar.move
        evidence = {name: oracle.evidence(name, directions.get(name)) for name in claims[0]}
    truths = {name: witnesses.truth[0] for name, witnesses in evidence.items()}
    rows = rows_of(oracle, evidence, claims, directions, how)
    if not problems and not how.in_regime:
        repeats[0].run(how.repeat or min(MOST_RUNS, 2 + places // PLACES_FOR_A_RUN))
    report = Report("", tuple(rows), tuple(problems))
    for k in sorted({row.upstream for row in report.wrong}):  # more runs for what is WRONG
        repeats[k].run(repeats[k].runs + CONFIRMING)
    report = without_verdict(report, *repeats)
    report = replace(report, problems=report.problems or tuple(not_numbers(claims[0])))
    notes = [*behaviour.notes(checked), *repeats[0].notes(how.repeat is not None), *filter(None, [fit.why])]
    report = replace(report, notes=tuple(notes))
    if not is_moved and all(max_abs(g) * sizes[name] <= noise for name, g in truths.items()):
        report = proving_nothing(report.rows, report, "every gradient of this check is 0")
    return Look(report, upstreams, claims, directions, evidence, fit.is_fit)


def rows_of(
    oracle: Oracle, evidence: dict[str, Evidence], claims: list[HostArrays], directions: Directions, how: CheckOptions
) -> list[Row]:
    """The rows of these claims beside the evidence."""
    most = np.max([[max_abs(n) for n in witnesses.truth] for witnesses in evidence.values()], axis=0)
    judge = Judge(oracle, most, how.tolerance, lambda: not culprit_of(oracle.subject), how.seed)
    rows = []
    for tensor, witnesses in evidence.items():
        full = np.array([claim[tensor] for claim in claims])
        along = directions.get(tensor)
        claimed = full if along is None else np.array([[np.sum(g * d) for d in along] for g in full])
        row = judge.row(tensor, claimed, witnesses, along)
        if how.in_regime and row.verdict == WRONG and row.note == TIED:
            row = replace(row, verdict=KINK)  # equal entries are the regime's doing
        if along is not None and oracle.subject.tensors[tensor].size > MANY_ELEMENTS:
            row = region_of(row, oracle, tensor, full[0], how.tolerance)
        rows.append(row)
    return rows


def without_verdict(report: Report, *repeats: Repeats) -> Report:
    """The report, in which a tensor whose gradient changes from run to run has no verdict."""
    faulty = [one for one in repeats if one.faulty][:1]
    problems = dict.fromkeys([*report.problems, *(problem for one in faulty for problem in one.problems)])
    unclear = {"verdict": UNCLEAR, "note": "another gradient at each run", "region": ""}
    changes = dict.fromkeys((tensor for one in repeats for tensor in one.faulty), unclear)
    return replace(report.changed(changes), problems=tuple(problems))


def not_numbers(gradients: HostArrays) -> list[str]:
    """The problem of gradients that are NaN though the forward is finite."""
    nowhere = {tensor: np.argwhere(np.isnan(gradient)) for tensor, gradient in gradients.items()}
    return [
        f"the gradient of {tensor} is NaN at {places[0].tolist() or 'its number'}, as {len(places)} of "
        f"{gradients[tensor].size} entries are, where forward is finite"
        for tensor, places in nowhere.items()
        if len(places)
    ]


def proving_nothing(rows: Sequence[Row], report: Report, why: str) -> Report:
    """The report with these rows marked as proving nothing."""
    change = {"verdict": NOTHING, "note": why, "cause": "", "diagnosis": ""}
    return report.changed({row.tensor: change for row in rows})


def expect_fitting(checked: Subject, gradients: HostArrays) -> None:
    """Raise BackwardFailed or DTypeError unless every gradient has the shape of its tensor and is float64."""
    for tensor, value in checked.tensors.items():
        gradient = gradients[tensor]
        if gradient.shape != value.shape:
            hint = _order_hint(checked, gradients) or _hint(value, gradient)
            error = ShapeError(f"gradient of {tensor}: expected {value.shape}, got {gradient.shape}{hint}")
            raise BackwardFailed(checked, error)
        if gradient.dtype != value.dtype:
            raise OtherPrecision(tensor, gradients, checked.inputs.tensors)


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
    if min(gradient.ndim, *gradient.shape, 2) > 1 and gradient.shape == value.shape[::-1]:
        return "; its axes stand in the reversed order: transpose it"
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


def upstreams_of(checked: Subject, how: CheckOptions, count: int) -> list[Upstream]:
    """Random gradients of the outputs, 0 for those that want none, by the user's word or the library's.

    Raises ConfigError if constant= names an output that forward does not return, or all.
    """
    upstreams, kept, target = random_upstreams(checked, how.seed, count), checked.kept, checked.target
    words = [how.constant] if isinstance(how.constant, str | int) else how.constant
    said = {int(str(word)[7:]) for word in words if is_output(word)}
    if not said <= set(range(len(checked.kinds))) or said.issuperset(kept):
        known = f"output 0 to output {len(checked.kinds) - 1}"
        raise ConfigError(f"constant: expected some of {known}, not all that are floats, got {sorted(said)}")
    if len(kept) > 1 and isinstance(target, Checkable):
        checked.gradients(upstreams[0])  # the library's word is known after it
        checked.silent = dict.fromkeys(target.silent, "by the library's own word")
    checked.silent |= dict.fromkeys(said, "as constant= says")
    return [silenced(upstream, {k for k, i in enumerate(kept) if i in checked.silent}) for upstream in upstreams]


def silenced(upstream: Upstream, silent: Container[int]) -> Upstream:
    """The upstream gradients, 0 for these outputs."""
    return tuple(0 * r if i in silent else r for i, r in enumerate(upstream))


def random_directions(checked: Subject, seed: int, count: int = DIRECTIONS) -> dict[str, list[HostArray]]:
    """A few directions for each tensor: a direction over all tensors would hide a small bias beside a large matrix."""
    rng = np.random.default_rng([seed, 1])
    return {tensor: [direction_in(x, rng) for _ in range(count)] for tensor, x in checked.tensors.items()}
