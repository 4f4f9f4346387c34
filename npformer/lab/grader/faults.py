"""Everything that is wrong with an answer, fault by fault, each with its hints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from npformer.lab.grader.diagnosis import Explanation, explain
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.findings import Finding
from npformer.lab.grader.hints import BY_CONDUCT, GENERAL, for_error, for_forward, for_order
from npformer.lab.grader.judge import Result
from npformer.lab.grader.source import Source


class Fault(NamedTuple):
    """One fault: the gradients that it spoils (none for a fault of another kind), and why."""

    gradients: tuple[str, ...]
    explanation: Explanation


def faults_of(
    exercise: Exercise, source: Source, outcomes: Sequence[Result], findings: Sequence[Finding]
) -> tuple[Fault, ...]:
    """The faults: an exception, the forward, the order, the gradients from the output on, and conduct."""
    wrong = [finding.name for finding in findings if not finding.ok]
    return (
        *_errors(exercise, source, outcomes),
        *_of_whole(exercise, outcomes, wrong),
        *_of_gradients(exercise, outcomes, wrong),
        *(_plain(name, BY_CONDUCT[name]) for name in _conduct(outcomes, wrong)),
    )


def _plain(cause: str, hints: tuple[str, str, str]) -> Fault:
    return Fault((), Explanation(cause, "", hints))


def _errors(exercise: Exercise, source: Source, outcomes: Sequence[Result]) -> Iterator[Fault]:
    """The first exception in the learner's code."""
    for outcome in outcomes:
        failure = outcome.failure
        if failure is not None and failure["type"] != "TimeLimit":
            yield _plain(failure["type"], for_error(failure, source.line(failure["line"]), exercise))
            return


def _of_whole(exercise: Exercise, outcomes: Sequence[Result], wrong: Sequence[str]) -> Iterator[Fault]:
    """A forward that is another function, and right gradients in another order."""
    if "forward" in wrong and any(outcome.other_forward for outcome in outcomes):
        yield _plain("forward", for_forward(exercise))
    if "order" in wrong:
        yield _plain("order", for_order(exercise))


def _of_gradients(exercise: Exercise, outcomes: Sequence[Result], wrong: Sequence[str]) -> list[Fault]:
    """The faults of gradients, the one nearest to the output first.

    A gradient is wrong, too, if it is made from a wrong one. So a mistake speaks for all gradients that it explains,
    and of gradients that nothing explains only the one nearest to the output gets general hints.
    """
    computed = dict.fromkeys(name for outcome in outcomes for name in outcome.gradients)
    left = [name for name in computed if name in wrong]
    faults: list[Fault] = []
    while left:
        explanation = explain(exercise, left[-1], outcomes)
        spoiled = [name for name in left if name == left[-1] or name in explanation.covers]
        left = [name for name in left if name not in spoiled]
        faults = _joined(faults, Fault(tuple(spoiled), explanation))
    particular = [fault for fault in faults if fault.explanation.hints not in GENERAL]
    return particular or faults[:1]


def _joined(faults: list[Fault], fault: Fault) -> list[Fault]:
    """The faults with one more, or with one that has more gradients: the same mistake in several of them."""
    for i, other in enumerate(faults):
        one, two = fault.explanation, other.explanation
        if (one.cause, one.hints[:2]) == (two.cause, two.hints[:2]):
            seen = " ".join(dict.fromkeys(filter(None, (one.seen, two.seen))))
            last = "; ".join(dict.fromkeys((one.hints[2], two.hints[2])))
            both = Explanation(two.cause, seen, (*two.hints[:2], last), two.covers)
            return [*faults[:i], Fault((*fault.gradients, *other.gradients), both), *faults[i + 1 :]]
    return [*faults, fault]


def _conduct(outcomes: Sequence[Result], wrong: Sequence[str]) -> Iterator[str]:
    """The names of the answer's faults other than wrong numbers."""
    if any(outcome.complaint for outcome in outcomes) and "order" not in wrong:
        yield "structure"
    if any(outcome.measuring for outcome in outcomes):
        yield "measured"
    yield from (name for name in ("inputs", "cache", "time", "process") if name in wrong)
