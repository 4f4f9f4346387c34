"""Compares a learner's results on each case with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import largest, max_abs, scale_of
from npformer.lab.grader.exercises import Case, Exercise
from npformer.lab.grader.runner import Run
from npformer.lab.grader.tree import as_tuple, decode, named
from npformer.typing import HostArray, HostArrays

#: Largest scaled error of a right result. Both sides compute in float64, whose own rounding comes to 3e-13 at most
#: (the gradient of a key's bias, which is 0). A central difference of an operation that is not linear comes to
#: 2e-11 in some case, whatever its step.
TOLERANCE = 1e-11
#: The same for slopes that the grader measures.
MEASURED_TOLERANCE = 1e-5
#: Up to this error the formula is right but the precision is not: float32 reaches 8e-5 in the deepest exercise.
SINGLE = 1e-4


class Compared(NamedTuple):
    """One tensor on one case: the claimed value, the right value, and the kind of error ("" if none)."""

    claimed: Any
    truth: HostArray
    problem: str  # "", "numbers", "shape", "kind", "not finite", "precision" (right, but not to float64's rounding)
    error: float  # scaled: max|a − n| / max(max|n|, 1e-3 · the largest entry of the case)


@dataclass(eq=False)
class Result:
    """One case: the outputs and gradients returned, by name, or the reason why there are none."""

    case: Case
    outputs: dict[str, Compared] = field(default_factory=dict)
    gradients: dict[str, Compared] = field(default_factory=dict)
    returned: tuple[Any, ...] = ()  # what backward returned, before it is taken apart by name
    complaint: str = ""  # the result has the wrong structure
    failure: dict[str, Any] | None = None  # an exception in the learner's code
    changed: list[str] = field(default_factory=list)  # inputs that were written to
    stable: bool = True  # whether a second backward gave the same
    measuring: list[str] = field(default_factory=list)  # signs of a measured gradient
    lines: dict[str, tuple[int, Any]] = field(default_factory=dict)  # of the backward's names, with their last values
    own_forward: bool = False  # whether gradients were compared with the learner's own forward

    @property
    def other_forward(self) -> bool:
        """Whether the forward differs from the exercise's by more than precision."""
        return any(compared.problem not in ("", "precision") for compared in self.outputs.values())

    @property
    def late(self) -> bool:
        """The time was up."""
        return self.failure is not None and self.failure["type"] == "TimeLimit"

    @property
    def blank(self) -> bool:
        """The backward is still the template's."""
        return self.failure is not None and self.failure["type"] == "NotImplementedError"


def outcomes_of(exercise: Exercise, cases: Sequence[Case], run: Run) -> list[Result]:
    """The outcomes from a run's events, case by case; cases that were not reached are left out."""
    by_index: dict[int, Result] = {}
    for event in run.events:
        index = event["case"]
        if index is None:
            continue
        outcome = by_index.setdefault(index, Result(cases[index]))
        if event["event"] == "failed":
            outcome.failure = event
        elif event["event"] == "forward":
            _forward(exercise, outcome, event)
        elif event["event"] == "backward":
            _backward(exercise, outcome, event)
    return [by_index[index] for index in sorted(by_index)]


def _forward(exercise: Exercise, outcome: Result, event: dict[str, Any]) -> None:
    outcome.changed += event["changed"]
    result, wanted = decode(event["result"]), ", ".join(exercise.outputs)
    wanted = f"({wanted})" if len(exercise.outputs) > 1 else wanted
    got = f"got {kind(result)}"
    if isinstance(result, tuple) and len(result) == 2:
        try:
            outcome.outputs, got = compared(exercise.outputs, result[0], outcome.case.outputs), ""
        except ValueError:
            got = f"its outputs are {kind(result[0])}"
    if got:
        outcome.complaint = f"{exercise.name}_forward: expected to return ({wanted}, cache), {got}"


def _backward(exercise: Exercise, outcome: Result, event: dict[str, Any]) -> None:
    outcome.changed += [name for name in event["changed"] if name not in outcome.changed]
    outcome.stable, outcome.measuring, outcome.lines = event["stable"], event["measuring"], event["lines"]
    result = decode(event["result"])
    outcome.returned = as_tuple(result)
    try:
        outcome.gradients = compared(exercise.gradients, result, outcome.case.gradients)
    except ValueError as error:
        names, count = ", ".join(exercise.gradients), len(exercise.gradients)
        wanted = f"{count} gradients, {names}, in this order" if count > 1 else f"one gradient, {names}"
        outcome.complaint = f"{exercise.name}_backward: expected to return {wanted}, got {error.args[0]}"


def compared(names: tuple[str, ...], claimed: Any, truth: Any) -> dict[str, Compared]:
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


def compare(claimed: Any, truth: HostArray, most: float, tolerance: float = TOLERANCE) -> Compared:
    """Compare one claimed tensor with the true one; most: the largest absolute entry of the whole case."""
    if isinstance(claimed, bool | int | float):
        claimed = np.asarray(claimed)
    if not isinstance(claimed, np.ndarray):
        return Compared(claimed, truth, "kind", 0.0)
    if claimed.shape != truth.shape:
        return Compared(claimed, truth, "shape", 0.0)
    if not np.all(np.isfinite(claimed)):
        return Compared(claimed, truth, "not finite", float("inf"))
    error = max_abs(claimed - truth) / scale_of(truth, most)
    single = claimed.dtype.kind == "f" and claimed.dtype.itemsize < 8
    problem = "numbers" if error > SINGLE else "precision" if single or error > tolerance else ""
    return Compared(claimed, truth, problem, error)


def against_own_forward(outcome: Result, slopes: HostArrays) -> None:
    """Compare the gradients with measured slopes of the learner's own forward instead."""
    most, came = largest(slopes.values()), outcome.gradients
    outcome.own_forward = True
    outcome.gradients = {name: compare(came[name].claimed, slopes[name], most, MEASURED_TOLERANCE) for name in came}


def kind(value: Any) -> str:
    """A value in words."""
    if value is None:
        return "None (is a `return` missing?)"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"one array {value.shape}"
    return "a dict" if isinstance(value, dict) else str(value)
