"""Everything that is wrong with an answer, fault by fault, each with its hints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npformer.lab.grader.diagnosis import Fault, explain
from npformer.lab.grader.exercises import HINTS, Exercise
from npformer.lab.grader.findings import Finding
from npformer.lab.grader.hints import for_error, for_forward, told
from npformer.lab.grader.judge import Result
from npformer.lab.grader.source import Source


def faults_of(
    exercise: Exercise, source: Source, outcomes: Sequence[Result], findings: Sequence[Finding]
) -> Iterator[Fault]:
    """The faults: an exception, the forward, the order, the gradients from the output on, and conduct."""
    wrong = [finding.name for finding in findings if not finding.ok]
    failures = [outcome.failure for outcome in outcomes if outcome.failure and not outcome.late]
    for failure in failures[:1]:
        yield Fault(failure["type"], "", for_error(failure, source.line(failure["line"]), exercise))
    if "forward" in wrong and any(outcome.other_forward for outcome in outcomes):
        yield Fault("forward", "", for_forward(exercise))
    if "order" in wrong:
        names = {"wrt": ", ".join(exercise.wrt), "gradients": ", ".join(exercise.gradients)}
        yield Fault("order", "", told("order", **names))
    yield from _of_gradients(exercise, outcomes, wrong)
    conduct = ["structure"] if any(outcome.complaint for outcome in outcomes) and "order" not in wrong else []
    conduct += ["measured"] if any(outcome.measuring for outcome in outcomes) else []
    for name in [*conduct, *(name for name in ("inputs", "cache", "time", "process") if name in wrong)]:
        yield Fault(name, "", HINTS[name])


def _of_gradients(exercise: Exercise, outcomes: Sequence[Result], wrong: Sequence[str]) -> list[Fault]:
    """The faults of gradients, the one nearest to the output first.

    A gradient is wrong, too, if it is made from a wrong one. So a mistake speaks for all gradients that it explains,
    and of gradients that nothing explains only the one nearest to the output gets general hints.
    """
    computed = dict.fromkeys(name for outcome in outcomes for name in outcome.gradients)
    left = [name for name in computed if name in wrong]
    faults: list[Fault] = []
    while left:
        cause, seen, hints, explained = explain(exercise, left[-1], outcomes)
        spoiled = tuple(name for name in left if name == left[-1] or name in explained)
        left = [name for name in left if name not in spoiled]
        faults = _joined(faults, Fault(cause, seen, hints, spoiled))
    particular = [fault for fault in faults if fault.hints not in (HINTS["undo"], HINTS["parts"])]
    return particular or faults[:1]


def _joined(faults: list[Fault], fault: Fault) -> list[Fault]:
    """The faults with one more, or with one that has more gradients: the same mistake in several of them."""
    for i, other in enumerate(faults):
        if (fault.cause, *fault.hints[:2]) == (other.cause, *other.hints[:2]):
            seen = " ".join(dict.fromkeys(filter(None, (fault.seen, other.seen))))
            last = "; ".join(dict.fromkeys((fault.hints[2], other.hints[2])))
            both = Fault(other.cause, seen, (*other.hints[:2], last), fault.gradients + other.gradients)
            return [*faults[:i], both, *faults[i + 1 :]]
    return [*faults, fault]
