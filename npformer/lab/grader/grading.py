"""Compares a learner's results on each case with the reference: findings, with the numbers that show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import largest, max_abs, scale_of, worst_at
from npformer.check.report import RIGHT, WRONG, Claim
from npformer.io.child.values import as_tuple, kind
from npformer.io.percent import percent
from npformer.io.terminal import counted
from npformer.lab.grader.exercises import Exercise, ExerciseCase
from npformer.lab.grader.source import LearnerFile
from npformer.lab.grader.tree import named
from npformer.typing import HostArray, HostArrays

FEW = 5  # the most numbers in an excerpt
#: Possible errors of a tensor, the least severe first.
SEVERITY = ("", "precision", "numbers", "not finite", "kind", "shape")
#: The signs of a measured gradient in words; see child/measuring.py.
SIGNS = {
    "complex": "computes with complex numbers, as a complex step does",
    "forward": "calls {}_forward, or a copy of it, again and again",
    "moved": "evaluates a function again and again with one number moved",
    "unwatched": "removes the grader's sys.setprofile",
}

#: Of inputs with and without an exception, or another number of gradients: the latter's numbers may be wrong, too.
SO = ("so", "not so")
#: Largest scaled error of a right result. Both sides compute in float64, whose own rounding comes to 3e-13 at most
#: (the gradient of a key's bias, which is 0). A central difference of an operation that is not linear comes to
#: 2e-11 in some case, whatever its step.
TOLERANCE = 1e-11
#: The same for slopes that the grader measures.
MEASURED_TOLERANCE = 1e-5
#: Up to this error the formula is right but the precision is not: float32 reaches 8e-5 in the deepest exercise.
SINGLE = 1e-4
#: Exceptions that are none of the learner's: the time was up; the backward is still the template's.
LATE, BLANK = "TimeLimit", "NotImplementedError"


class ComparedTensor(NamedTuple):
    """One tensor on one case: the claimed value, the right value, and the kind of error ("" if none)."""

    claimed: Any
    truth: HostArray
    problem: str  # "", "numbers", "shape", "kind", "not finite", "precision" (right, but not to float64's rounding)
    error: float  # scaled: max|a − n| / max(max|n|, 1e-3 · the largest entry of the case)


@dataclass(eq=False)
class Result:
    """One case: the outputs and gradients returned, by name, or the reason why there are none."""

    case: ExerciseCase
    outputs: dict[str, ComparedTensor] = field(default_factory=dict)
    gradients: dict[str, ComparedTensor] = field(default_factory=dict)
    returned: tuple[Any, ...] = ()  # what backward returned, before it is taken apart by name
    complaint: str = ""  # the result has the wrong structure
    failure: dict[str, Any] = field(default_factory=dict)  # an exception in the learner's code
    changed: list[str] = field(default_factory=list)  # inputs that were written to
    stable: bool = True  # whether a second backward gave the same
    measuring: list[str] = field(default_factory=list)  # signs of a measured gradient
    lines: dict[str, tuple[int, Any]] = field(default_factory=dict)  # of the backward's names, with their last values
    own_forward: bool = False  # whether gradients were compared with the learner's own forward

    @property
    def other_forward(self) -> bool:
        """Whether the forward differs from the exercise's by more than precision."""
        return any(compared.problem not in ("", "precision") for compared in self.outputs.values())

    def note_forward(self, exercise: Exercise, result: Any, changed: Sequence[str]) -> None:
        """Take what forward returned, (y, cache) or something else."""
        self.changed += changed
        wanted = ", ".join(exercise.outputs)
        wanted = f"({wanted})" if len(exercise.outputs) > 1 else wanted
        got = f"got {kind(result)}"
        if isinstance(result, tuple) and len(result) == 2:
            try:
                self.outputs, got = compared(exercise.outputs, result[0], self.case.outputs), ""
            except ValueError:
                got = f"its outputs are {kind(result[0])}"
        if got:
            self.complaint = f"{exercise.name}_forward: expected to return ({wanted}, cache), {got}"

    def note_backward(self, exercise: Exercise, result: Any, changed: Sequence[str]) -> None:
        """Take what backward returned."""
        self.changed += [name for name in changed if name not in self.changed]
        self.returned = as_tuple(result)
        try:
            self.gradients = compared(exercise.gradients, result, self.case.gradients)
        except ValueError as error:
            names, count = ", ".join(exercise.gradients), len(exercise.gradients)
            wanted = f"{count} gradients, {names}, in this order" if count > 1 else f"one gradient, {names}"
            self.complaint = f"{exercise.name}_backward: expected to return {wanted}, got {error.args[0]}"


def compared(names: tuple[str, ...], claimed: Any, truth: Any) -> dict[str, ComparedTensor]:
    """Compare each leaf. Raises ValueError, with the value found, if the structure differs."""
    right = named(names, truth)
    if len(as_tuple(claimed)) != len(names):
        raise ValueError(kind(claimed))
    came = named(names, claimed)
    found = [("nothing for", sorted(right.keys() - came.keys())), ("also", sorted(came.keys() - right.keys()))]
    words = [
        f"{what} {', '.join(some[:3])}" + f" and {len(some) - 3} more" * (len(some) > 3) for what, some in found if some
    ]
    if words:
        raise ValueError(", ".join(words))
    most = largest(right.values())
    return {name: compare(came[name], np.asarray(right[name]), most) for name in right}


def compare(claimed: Any, truth: HostArray, most: float, tolerance: float = TOLERANCE) -> ComparedTensor:
    """Compare one claimed tensor with the true one; most: the largest absolute entry of the whole case."""
    if isinstance(claimed, bool | int | float):
        claimed = np.asarray(claimed)
    if not isinstance(claimed, np.ndarray):
        return ComparedTensor(claimed, truth, "kind", 0.0)
    if claimed.shape != truth.shape:
        return ComparedTensor(claimed, truth, "shape", 0.0)
    if not np.all(np.isfinite(claimed)):
        return ComparedTensor(claimed, truth, "not finite", float("inf"))
    error = max_abs(claimed - truth) / scale_of(truth, most)
    single = claimed.dtype.kind == "f" and claimed.dtype.itemsize < 8
    problem = "numbers" if error > SINGLE else "precision" if single or error > tolerance else ""
    return ComparedTensor(claimed, truth, problem, error)


def against_own_forward(outcome: Result, slopes: HostArrays) -> None:
    """Compare the gradients with measured slopes of the learner's own forward instead."""
    most, came = largest(slopes.values()), outcome.gradients
    outcome.own_forward = True
    outcome.gradients = {name: compare(came[name].claimed, slopes[name], most, MEASURED_TOLERANCE) for name in came}


def forward_findings(exercise: Exercise, source: LearnerFile, outcomes: Sequence[Result]) -> Iterator[Claim]:
    """Whether the forward computes the exercise's function."""
    complaints = [t.complaint for t in outcomes if t.complaint and not t.outputs]
    failed = [t for t in outcomes if t.failure.get("step") == "forward" and t.failure["type"] != LATE]
    done = [t for t in outcomes if t.outputs]
    bad = [t for t in done if any(c.problem for c in t.outputs.values())]
    if complaints:
        yield Claim("forward", "right", WRONG, complaints[0])
    elif failed:
        yield _failure(exercise, source, failed, "forward", failed)
    elif bad:
        worst = next((t for t in bad if t.other_forward), bad[0])
        output, c = max(worst.outputs.items(), key=lambda item: SEVERITY.index(item[1].problem))
        text = f"{output} {_imprecise(c)}" if c.problem == "precision" else f"does not compute the exercise's {output}"
        yield _wrong("forward", text + _where(bad, outcomes), output, worst, c)
    elif done:
        yield Claim("forward", "right", RIGHT, f"computes what it should, on {counted(len(done), 'input')}")


def backward_findings(exercise: Exercise, source: LearnerFile, outcomes: Sequence[Result]) -> Iterator[Claim]:
    """Each gradient, or the reason why it was not computed."""
    tried = [t for t in outcomes if t.outputs and t.failure.get("type") != LATE]
    if tried and all(t.failure.get("type") == BLANK for t in tried):
        yield Claim("backward", "right", WRONG, f"{exercise.name}_backward is still empty: fill it in")
        return
    held, text = in_other_places(exercise, tried)
    complaints = [t for t in tried if t.complaint]
    if held:
        yield Claim("order", "right", WRONG, text)
    elif complaints:
        yield Claim("backward", "right", WRONG, complaints[0].complaint + _where(complaints, tried, SO))
    failed = [t for t in tried if t.failure.get("step") == "backward"]
    if failed:
        yield _failure(exercise, source, failed, "backward", tried)
    for name in named(exercise.gradients, tried[0].case.gradients) if tried else ():
        ran = [t for t in tried if name in t.gradients]
        if ran and name.partition(".")[0] not in held:
            yield _gradient(name, ran)


def _gradient(name: str, outcomes: Sequence[Result]) -> Claim:
    bad = [t for t in outcomes if t.gradients[name].problem]
    if not bad:
        is_of_own = any(t.own_forward for t in outcomes)
        return Claim(name, "right", RIGHT, "is the derivative of your own forward" if is_of_own else "is right")
    worst = max(bad, key=lambda t: SEVERITY.index(t.gradients[name].problem))  # the first case with the worst error
    c = worst.gradients[name]
    if c.problem == "shape":
        text = f"has the shape {c.claimed.shape}, expected {c.truth.shape}"
    elif c.problem == "kind":
        text = f"expected an array {c.truth.shape}, got {kind(c.claimed)}"
    elif c.problem == "not finite":
        text = "has entries that are NaN or infinite"
    elif c.problem == "precision":
        text = _imprecise(c)
    else:
        off = f"{c.error:.1e}" if c.error < 1e-4 else percent(c.error, 0 if c.error >= 0.1 else 2)
        of = " of your own forward (measured)" * worst.own_forward
        text = f"is not the derivative{of}; off by {off} of its largest entry"
    return _wrong(name, text + _where(bad, outcomes), name, worst, c)


def _wrong(name: str, text: str, tensor: str, worst: Result, c: ComparedTensor) -> Claim:
    """A tensor is wrong; shown is the row of the worst place, expected and given."""
    meaning = "precise" if c.problem == "precision" else "right"
    on = f"on “{worst.case.label}”"
    if c.problem not in ("numbers", "not finite"):
        return Claim(name, meaning, WRONG, text, (on,))
    claimed = np.asarray(c.claimed)
    if c.truth.ndim == 0:
        details = [f"expected {float(c.truth):.6g}, got {float(claimed):.6g}, {on}"]
        return Claim(name, meaning, WRONG, text, details)
    *rows, column = worst_at(np.abs(claimed - c.truth))
    start = max(0, min(column - FEW // 2, c.truth.shape[-1] - FEW))
    place = ", ".join([*map(str, rows), f"{start}:{min(start + FEW, c.truth.shape[-1])}"])
    head = f"{tensor.split('.')[-1]}[{place}] {on}, worst at [{', '.join(map(str, [*rows, column]))}]"
    shown = [_row(x[tuple(rows)][start : start + FEW]) for x in (c.truth, claimed)]
    return Claim(name, meaning, WRONG, text, (head, f"  expected {shown[0]}", f"  yours    {shown[1]}"))


def _row(x: HostArray) -> str:
    return " ".join(f"{value:>10.4g}" for value in x.tolist())


def _imprecise(c: ComparedTensor) -> str:
    """The words for numbers that are right, but not to float64 precision; float32 is told by its numbers, too."""
    claimed = np.asarray(c.claimed)
    with np.errstate(over="ignore"):
        is_single = claimed.dtype.itemsize < 8 or np.all(claimed.astype(np.float32) == claimed)
    if is_single:
        return "is right, but computed in float32; expected float64 precision"
    why = "computed in float32, or measured by differences" if c.error > 1e-9 else "measured by differences"
    return f"is right, but not to float64 precision (off by {c.error:.1e} of its largest entry): is it {why}?"


def conduct_findings(exercise: Exercise, outcomes: Sequence[Result]) -> Iterator[Claim]:
    """Whether the pair is pure: changes no input, gives the same answer twice, derives instead of measuring."""
    changed = sorted({name for t in outcomes for name in t.changed})
    if changed:
        text = f"writes into its inputs: {', '.join(changed)}; other code still needs them, so work on a new array"
        yield Claim("inputs", "right", WRONG, text)
    elif any(t.outputs for t in outcomes):
        yield Claim("inputs", "right", RIGHT, "are unchanged")
    ran = [t for t in outcomes if t.gradients]
    if any(not t.stable for t in ran):
        text = "a second backward with the same cache gives other numbers: the first one writes into the cache"
        yield Claim("cache", "right", WRONG, text)
    signs = [text for sign, text in SIGNS.items() if any(sign in t.measuring for t in ran)]
    if signs:
        text = f"{signs[0].format(exercise.name)}: a gradient is to be derived here, not measured"
        yield Claim("backward", "right", WRONG, text)


def _failure(
    exercise: Exercise, source: LearnerFile, failed: Sequence[Result], step: str, among: Sequence[Result]
) -> Claim:
    """An exception in the learner's code, its line, and the shapes of inputs and upstream gradients."""
    event, case = failed[0].failure, failed[0].case
    arrays = dict(zip(exercise.arguments, case.arguments, strict=True)) | named(exercise.upstream, case.upstream)
    shapes = ", ".join(f"{name} {x.shape}" for name, x in arrays.items() if isinstance(x, np.ndarray))
    said = (event["message"] or "(without a message)").splitlines()[0]
    details = [text for text in (said, source.at(event["line"]), f"there: {shapes}") if text]
    return Claim(
        step, "right", WRONG, f"{exercise.name}_{step} stops with {event['type']}{_where(failed, among, SO)}", details
    )


def _where(bad: Sequence[Result], outcomes: Sequence[Result], words: tuple[str, str] = ("wrong", "right")) -> str:
    """The wrong inputs, if not all are wrong: often the whole diagnosis; words: for these, and for the others."""
    if len(bad) == len(outcomes):
        return ""
    wrong, right = (
        ", ".join(f"“{t.case.label}”" for t in outcomes if (t in bad) == is_bad) for is_bad in (True, False)
    )
    if 2 * len(bad) <= len(outcomes):
        return f"; only on {wrong}"
    return f"; {words[0]} on {wrong}, {words[1]} on {right}"


def in_other_places(exercise: Exercise, outcomes: Sequence[Result]) -> tuple[dict[str, str], str]:
    """Place -> the right gradient that stands there, for those in each other's places; and the finding in words.

    A place has the name of the gradient that belongs there. Cases count in which backward returned as many as asked.
    """
    names = exercise.gradients
    returned = [t for t in outcomes if len(t.returned) == len(names) and not t.other_forward]
    fits = {
        place: [name for j, name in enumerate(names) if all(_equal(t, i, j) for t in returned)]
        for i, place in enumerate(names)
    }
    lost = [place for place in names if returned and place not in fits[place]]
    held = {place: name for place in lost for name in reversed(fits[place]) if name in lost}
    if set(held) != set(held.values()):  # a gradient stands in two places, or where nothing was lost
        return {}, ""
    wanted = ", ".join(names)
    if len(held) < len(lost):
        return held, f"{' and '.join(held.values())} are right, in each other's places; the order is {wanted}"
    came = ", ".join(held.get(place, place) for place in names)
    return held, f"these are right, in the order {came}; return them in the order {wanted}"


def _equal(outcome: Result, i: int, j: int) -> bool:
    """Whether what stands in one place is the gradient that belongs in another."""
    try:
        pair = compared(("",), (outcome.returned[i],), (as_tuple(outcome.case.gradients)[j],))
    except ValueError:
        return False
    return not any(c.problem for c in pair.values())
