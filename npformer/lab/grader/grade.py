"""Grades a learner's file: runs each exercise in it, judges the results, and explains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npformer.check.report import NOT_BEGUN, RIGHT, WRONG, Claim, Judged
from npformer.errors import DataError
from npformer.io.child_process import Limits
from npformer.lab.grader.diagnosis import Fault, faults_of
from npformer.lab.grader.exercises import Exercise, cases_of
from npformer.lab.grader.grading import (
    BLANK,
    LATE,
    Result,
    against_own_forward,
    backward_findings,
    conduct_findings,
    forward_findings,
)
from npformer.lab.grader.line_by_line import lines_of
from npformer.lab.grader.runner import LearnerRun, run
from npformer.lab.grader.source import LearnerFile, exercises_in, read_source, refusal

ORACLE_CASES = 2  # number of cases on which the derivative of a learner's own forward is measured
MEASURABLE = {"", "precision", "numbers"}  # outputs of the right shapes, with finite numbers


@dataclass(frozen=True)
class Grade(Judged):
    """The verdict on one exercise, with its findings and the faults that explain them."""

    exercise: Exercise
    verdict: str  # RIGHT, WRONG or NOT_BEGUN
    findings: Sequence[Claim]
    faults: Sequence[Fault] = ()  # why it is not right, the first thing to see to first
    lines: Sequence[Claim] = ()  # of a wrong backward whose forward is the template's: the first wrong line
    printed: str = ""
    warnings: Sequence[dict[str, Any]] = ()


def grade_file(path: Path, forced: str | None = None, limits: Limits | None = None) -> Iterator[Grade]:
    """Grade the exercises of a file, in teaching order, one at a time.

    Raises DataError if the file cannot be read, parsed or run, defines no exercise, or does something
    forbidden (imports the answer, writes files); ConfigError if there is no exercise ``forced``.
    """
    source = read_source(path)
    wanted = exercises_in(source, forced)
    for exercise in wanted:
        yield grade_exercise(exercise, source, wanted, limits or Limits())


def grade_exercise(exercise: Exercise, source: LearnerFile, beside: Sequence[Exercise], limits: Limits) -> Grade:
    """Grade one exercise of a file that has these beside it. Raises DataError if no report can be made."""
    cases = cases_of(exercise)
    happened = run(exercise, source, beside, cases, limits, oracle=False)
    _expect_runs(exercise, source, happened, limits)
    outcomes = happened.results
    _measure_own_forward(exercise, source, beside, outcomes, limits)
    stopped = list(_stopped(exercise, source, happened, limits))
    findings = [*forward_findings(exercise, source, outcomes), *backward_findings(exercise, source, outcomes)]
    findings += [*conduct_findings(exercise, outcomes), *stopped]
    wrong = {finding.name.partition(".")[0] for finding in findings if not finding.ok}
    faults: list[Fault] = []
    lines: list[Claim] = []
    verdict = RIGHT if findings and not wrong else WRONG
    if outcomes and all(outcome.failure.get("type") == BLANK for outcome in outcomes) and not stopped:
        verdict = NOT_BEGUN
    elif verdict == WRONG:
        faults = list(faults_of(exercise, source, outcomes, findings))
        if wrong and wrong <= set(exercise.gradients):
            lines = lines_of(exercise, source, outcomes[0])
    warned = [] if happened.ended else happened.warnings
    return Grade(exercise, verdict, findings, faults, lines, happened.printed, warned)


def _expect_runs(exercise: Exercise, source: LearnerFile, happened: LearnerRun, limits: Limits) -> None:
    """Raise DataError if no report can be made."""
    if happened.refused:
        raise DataError(refusal(source, happened.refused["refused"], happened.refused["line"]))
    if happened.signatures is None:
        raise DataError(f"{source.path}: it does not load: {_why_not_loaded(source, happened, limits)}")
    asked = zip(exercise.functions, (exercise.arguments, ("dy", "cache")), happened.signatures, strict=True)
    for function, names, got in asked:
        if got is not None:
            expected = f"expected ({', '.join(names)}), called by position, got {got}"
            raise DataError(f"{source.path}: {function}: {expected}")


def _why_not_loaded(source: LearnerFile, happened: LearnerRun, limits: Limits) -> str:
    late, failure = f"its top level did not come to an end within {limits.seconds:g} s", happened.failure
    if failure:
        where = source.at(failure["line"], "\n  ")
        if failure["type"] == LATE:
            return late + where
        hint = "; a file may import only parts that come before its exercises (`npformer grade --list`)"
        hint = hint if "'parts'" in failure["message"] else ""
        return f"{failure['type']}: {failure['message']}{hint}{where}"
    if happened.ended is None or happened.ended.is_late:
        return late
    return f"its process ended with {happened.ended.code}; it printed: {happened.printed.strip()[-300:]!r}"


def _stopped(exercise: Exercise, source: LearnerFile, happened: LearnerRun, limits: Limits) -> Iterator[Claim]:
    """The finding that the run did not finish."""
    step = "it" if happened.step == "load" else f"{exercise.name}_{happened.step}"
    late = [result.failure for result in happened.results if result.failure.get("type") == LATE]
    slow = f"{step} did not come back within {limits.seconds:g} s"
    if late:
        at = source.at(late[0]["line"])
        yield Claim("time", "right", WRONG, f"{slow}: is there a loop without an end?", [at] if at else [])
    elif happened.ended and happened.ended.is_late:
        yield Claim("time", "right", WRONG, f"{slow} and had to be stopped")
    elif happened.ended:
        text = f"{step} ended the whole process ({happened.ended.code}): out of memory, or os._exit?"
        yield Claim("process", "right", WRONG, text)


def _measure_own_forward(
    exercise: Exercise, source: LearnerFile, beside: Sequence[Exercise], outcomes: Sequence[Result], limits: Limits
) -> None:
    """If the learner's forward is another function, compare the backward with that function's derivative."""
    other = [t for t in outcomes if t.other_forward]
    chosen = [t for t in other if t.gradients and {c.problem for c in t.outputs.values()} <= MEASURABLE][:ORACLE_CASES]
    cases = [outcome.case for outcome in chosen]
    measured = run(exercise, source, beside, cases, limits, oracle=True).slopes if cases else []
    for outcome, slopes in zip(chosen, measured, strict=False):
        against_own_forward(outcome, slopes)
    for outcome in other:
        if not outcome.own_forward:
            outcome.gradients = {}  # for another forward there is nothing to compare with
