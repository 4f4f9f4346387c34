"""Runs a learner's file in a separate process, with limits on time and memory, and collects its prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import npformer
from npformer.check.measures import with_gaps
from npformer.io.child.values import decode, mapped
from npformer.io.child_process import FIRST, GRACE, ChildEnded, ChildProcess, Limits, python_child
from npformer.io.seconds import now
from npformer.lab.grader.exercises import Exercise, ExerciseCase
from npformer.lab.grader.grading import Result
from npformer.lab.grader.source import BANNED, LearnerFile
from npformer.lab.grader.templates import parts_source
from npformer.lab.grader.tree import paths

STARTUP = 60.0  # the most seconds for loading Python and NumPy
Ask = Callable[..., dict[str, Any]]


@dataclass
class LearnerRun:
    """A run of the learner's process, as far as it came, and its prints."""

    results: list[Result] = field(default_factory=list)  # of the cases that were reached
    slopes: list[Any] = field(default_factory=list)  # of the forward on each case, if these were asked for
    signatures: list[str | None] | None = None  # those of functions that cannot be called; None if it does not load
    failure: dict[str, Any] = field(default_factory=dict)  # an exception while it was loaded
    refused: dict[str, Any] = field(default_factory=dict)  # what it does that is forbidden, and the line
    step: str = "load"  # the last one that was begun
    warnings: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""
    ended: ChildEnded | None = None  # why it did not come to its end


class _Over(Exception):
    """There is no more to ask."""


class _Failed(Exception):
    """An exception in the learner's code."""


def run(
    exercise: Exercise,
    source: LearnerFile,
    beside: Sequence[Exercise],
    cases: Sequence[ExerciseCase],
    limits: Limits,
    oracle: bool,
) -> LearnerRun:
    """Run one exercise of a file on these cases; beside are all exercises of the file, whose parts it may import.

    oracle: measure the derivative of the learner's forward, instead of calling its backward.
    """
    found, process = LearnerRun(), python_child(source.path.parent)
    parts = parts_source(name for other in (exercise, *beside) for name in other.available)
    job = {
        "path": str(source.path.absolute()), "parts": parts, "allowed": sorted(exercise.available),
        "banned": list(BANNED), "secret": str(Path(npformer.__file__).parent) + os.sep,
        "seconds": limits.seconds, "memory": limits.memory,
    }  # fmt: skip
    try:
        _asking(found, process, STARTUP)("begin", **job)
        with suppress(_Over):
            _run(found, _asking(found, process, limits.seconds + GRACE), exercise, source, cases, oracle)
    except ChildEnded as ended:
        found.ended = ended
    finally:
        process.end()
    first = process.prints.first
    found.printed = first.decode("utf-8", "replace") + "\n… and more" * (len(first) == FIRST)
    return found


def _asking(found: LearnerRun, process: ChildProcess, seconds: float) -> Ask:
    """ask(call, named values, what else is asked), within so many seconds from now: the answer, with its value."""
    deadline = now() + seconds

    def ask(call: str, values: Any = (), **asked: Any) -> dict[str, Any]:
        told = process.call(call, deadline - now(), values, **asked)
        if "refused" in told:
            found.refused = told
            raise _Over
        found.warnings = told["warnings"]
        if "failed" in told:
            raise _Failed(told)
        return told

    return ask


def _run(
    found: LearnerRun, ask: Ask, exercise: Exercise, source: LearnerFile, cases: Sequence[ExerciseCase], oracle: bool
) -> None:
    asked = {"source": source.text, "module": "exercise", "pair": exercise.functions}
    try:
        found.signatures = ask("load", **asked, counts=[len(exercise.arguments), 2])["signatures"]
    except _Failed as failed:
        found.failure = failed.args[0]["failed"]
        return
    for index, case in enumerate(() if any(found.signatures or ()) else cases):
        found.results.append(Result(case))
        try:
            if oracle:
                given = (("", case.arguments), ("", case.upstream))
                found.slopes.append(ask("slopes", given, leaves=_leaves(exercise, case))["value"])
            else:
                _try(found, ask, exercise, index)
        except _Failed as failed:
            (told,) = failed.args
            found.results[-1].failure = {**told["failed"], "step": found.step}
            if told["is_late"] or oracle:
                return


def _try(found: LearnerRun, ask: Ask, exercise: Exercise, index: int) -> None:
    """Forward, then backward twice: its calls are watched, then it is seen whether it changed its cache."""
    result = found.results[-1]
    given = (*result.case.arguments, result.case.upstream)
    names = [*exercise.arguments, "the incoming gradient"]
    *arguments, dy = zip(names, (mapped(with_gaps, x) if result.case.gaps else x for x in given), strict=True)
    found.step = "forward"
    forward = ask("forward", arguments, number=index, watch="strictly")
    y, is_pair = forward["value"], forward["is_pair"]
    result.note_forward(exercise, (y, None) if is_pair else y, forward["changed"])
    if not is_pair:
        return
    found.step = "backward"
    first = ask("backward", [dy], number=index, watch="strictly")
    second = ask("backward", [dy], number=index, watch="", quiet=True, follow=index == 0)
    result.stable, result.measuring = _same(first, second), first["signs"]
    found_by = second["lines"].items()
    result.lines = {name: (line, decode(form, second["arrays"])) for name, (line, form) in found_by}
    result.note_backward(exercise, first["value"], first["changed"])


def _same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two answers have the same value."""
    pairs = zip(first["arrays"], second["arrays"], strict=False)  # the second has those of its lines, too
    return first["form"] == second["form"] and all(
        (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()) for x, y in pairs
    )


def _leaves(exercise: Exercise, case: ExerciseCase) -> list[tuple[str, list[Any], list[int]]]:
    """(name of the gradient, path in the arguments, shape) of every array to be differentiated."""
    leaves = []
    for name in exercise.wrt:
        index = exercise.arguments.index(name)
        for path, array in paths(case.arguments[index], (index,)):
            dotted = ".".join(["d" + name, *path[1:]])
            leaves.append((dotted, list(path), list(array.shape)))
    return leaves
