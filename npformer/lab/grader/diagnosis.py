"""Everything that is wrong with an answer, fault by fault, each with its hints; finds the cause of a wrong gradient.

In this order: a typical mistake that gives exactly the same numbers on every case; a constant factor; a
telling shape; a mutant of the reference backward with the same numbers; a pattern in the numbers; and if
nothing fits, the exercise's own hints for that gradient. A wrong gradient that equals a typical mistake on every
case *is* that mistake, so the hint can be specific.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check.causes.mutants import Mutant, mutants
from npformer.check.causes.patterns import NUMBERS, Clues, agree, by_pattern, by_shape, names_of
from npformer.check.measures import max_abs
from npformer.check.report import Claim
from npformer.io.child.values import as_tuple
from npformer.lab.grader.exercises import HINTS, Exercise, ExerciseCase
from npformer.lab.grader.grading import LATE, ComparedTensor, Result
from npformer.lab.grader.parts import FUNCTIONS
from npformer.lab.grader.source import LearnerFile
from npformer.lab.grader.tree import named

Hints = Sequence[str]
SHAPES = ("shape", "mismatch", "broadcast", "dimension", "axis", "size")  # words of errors of shapes
#: Of two factors what shows and what is wrong.
SCALED = {
    "−1": ("{} has the right numbers with the opposite sign.", "A minus sign is too many, or missing."),
    "0": ("{} is 0 everywhere, and should not be.", "It is lost on the way, or multiplied by 0."),
}


class Fault(NamedTuple):
    """Why an answer is wrong: cause for JSON, the visible effect, and hints from a question to almost the code."""

    cause: str
    seen: str
    hints: Hints
    gradients: tuple[str, ...] = ()  # that it explains; none of a fault of another kind


class Wrong(NamedTuple):
    """A wrong gradient, on all cases in which it can be compared with the exercise's."""

    exercise: Exercise
    gradient: str
    outcomes: Sequence[Result]
    compared: Sequence[ComparedTensor]


def told(kind: str, **words: Any) -> Hints:
    """The hints for a kind of error, with the words that they lack."""
    return [text.format(**words) for text in HINTS[kind]]


def for_gradient(exercise: Exercise, gradient: str) -> Hints:
    """The hints for a gradient of an exercise, whatever the error."""
    name, _, inner = gradient.partition(".")
    found = exercise.hints.get(name) or exercise.hints.get("*") or ("parts" if inner else "undo")
    hints: Hints = HINTS[found] if isinstance(found, str) else found
    return hints


def for_mutant(mutant: Mutant, gradient: str) -> Hints:
    """The hints for a gradient that equals that of a mutant of the reference."""
    question, named = HINTS["operators"][mutant.operator]
    if mutant.operator == "drop a term" and mutant.before.startswith(f"{mutant.after} + "):
        named = f"One term of a sum is missing: what --answer calls `{mutant.before[len(mutant.after) + 3 :]}`."
    line = f"In the words of --answer: where `{mutant.before}` belongs, yours does what `{mutant.after}` would."
    if "." in gradient:  # in a whole layer, the place of the error is half the answer
        question = f"Coming from the output, {gradient} is the first gradient to be wrong. {question}"
    return question, named, line


def for_forward(exercise: Exercise) -> Hints:
    """The hints for a forward that computes something else."""
    lines = exercise.formula.replace("   ", "\n").split("\n")
    return told("forward", name=exercise.name, formula=" ; ".join(line.strip() for line in lines if line.strip()))


def for_error(failure: dict[str, Any], line: str, exercise: Exercise) -> Hints:
    """The hints for an exception in the learner's code; line is the line at which it stopped."""
    names, message = exercise.gradients, failure["message"]
    near = next((name for name in names if re.search(rf"(^|\W){name}(\W|$)", line)), names[-1])
    last = for_gradient(exercise, near)[2] if failure["step"] == "backward" else "Compare with the template's forward."
    single = re.search(r"^\s*[(\[]?\s*(\w+)\s*,?\s*[)\]]? = (\w+_backward)\(", line)
    name, call = single.groups() if single else ("", "")
    kind = "shapes" if any(word in message for word in SHAPES) else "error"
    if "unpack" in message:
        kind = "one of one" if single else "unpack"
    if failure["type"] == "MemoryError":
        kind = "memory"
    return told(kind, message=message, near=near, of=near[1:], last=last, name=name, call=call)


def explain(exercise: Exercise, gradient: str, outcomes: Sequence[Result]) -> Fault:
    """Explain one wrong gradient; outcomes: all cases in which it was computed."""
    usable = [t for t in outcomes if gradient in t.gradients and not t.own_forward]
    wrong = Wrong(exercise, gradient, usable, [t.gradients[gradient] for t in usable])
    for reader in (_kind, _typical, _shape, _factor, _mutant, _pattern) if usable else ():
        fault = reader(wrong)
        if fault is not None:
            return fault
    return Fault("unknown", "", for_gradient(exercise, gradient))


def _kind(wrong: Wrong) -> Fault | None:
    """float32 or NaN, if nothing else is wrong."""
    for kind in ("precision", "not finite"):
        if {c.problem for c in wrong.compared if c.problem} == {kind}:
            return Fault(kind, "", told(kind, gradient=wrong.gradient))
    return None


def _typical(wrong: Wrong) -> Fault | None:
    for mistake in wrong.exercise.mistakes:
        results = [mistaken(wrong.exercise, outcome.case, mistake["wrong"]) for outcome in wrong.outcomes]
        gradients = _explained(wrong, results)
        if gradients:
            return Fault(mistake["cause"], mistake["seen"], mistake["hints"], gradients)
    return None


def mistaken(exercise: Exercise, case: ExerciseCase, code: str) -> dict[str, Any]:
    """The gradients that a mistake's code makes of a case, by name.

    It has the names of the case: arguments, upstream gradients (dy, …), outputs (y, …), true gradients (dx, …), cache.
    """
    values = zip(exercise.arguments + exercise.gradients, case.arguments + as_tuple(case.gradients), strict=True)
    names = FUNCTIONS | {"np": np, "mean": _mean, "cache": case.cache} | dict(values)
    names |= named(exercise.outputs, case.outputs) | named(exercise.upstream, case.upstream)
    made: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        exec(code, names, made)
    given = tuple(name for name in exercise.gradients if name in made)
    return named(given, tuple(made[name] for name in given))


def _mean(x: Any) -> Any:
    """The mean over the last axis, kept with length 1."""
    return x.mean(axis=-1, keepdims=True)


def _explained(wrong: Wrong, results: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The gradients that a mistake gives as the learner has them, on every case; none without the wrong one."""
    if not any(c.problem for c, made in zip(wrong.compared, results, strict=True) if wrong.gradient in made):
        return ()
    claimed = [{name: c.claimed for name, c in outcome.gradients.items()} for outcome in wrong.outcomes]
    pairs, names = list(zip(claimed, results, strict=True)), dict.fromkeys(name for made in results for name in made)
    same = [name for name in names if all(_agree(ours.get(name), made[name]) for ours, made in pairs if name in made)]
    return tuple(same) if wrong.gradient in same else ()


def _factor(wrong: Wrong) -> Fault | None:
    """A constant factor, with the same value or the same letter in every case, including cases in which it is 1."""
    letters = {letter for outcome in wrong.outcomes for letter in outcome.case.sizes}
    names: set[str] | None = None
    for outcome, c in zip(wrong.outcomes, wrong.compared, strict=True):
        if c.problem not in ("", "precision", "numbers"):
            return None
        square = float(np.sum(c.truth * c.truth))
        if square < 1e-20:
            continue  # any factor would fit
        factor = float(np.sum(c.claimed * c.truth)) / square
        if not _agree(c.claimed, factor * c.truth) or c.truth.size < 2:
            return None
        sizes = dict.fromkeys(letters, 1.0) | dict(outcome.case.sizes)
        here = set(names_of(factor, sizes)) or {f"{factor:.4g}"}
        names = here if names is None else names & here
    return _scaled(wrong, min(names, key=lambda n: (n not in NUMBERS, len(n), n))) if names else None


def _scaled(wrong: Wrong, name: str) -> Fault:
    """A gradient that is a factor times the right one."""
    usual = f"Every number of {{}} is {name} times what it should be.", f"The factor {name} should not be there."
    seen, hint = SCALED.get(name, usual)
    question = "Which factor is too many, or missing? Follow it through the forward, line by line."
    return _told(wrong, f"scaled by {name}", seen.format(wrong.gradient), question, hint)


def _told(wrong: Wrong, cause: str, seen: str, question: str, hint: str) -> Fault:
    """With the gradient's own line as the third hint."""
    return Fault(cause, seen, (question, hint, for_gradient(wrong.exercise, wrong.gradient)[2]))


def _shape(wrong: Wrong) -> Fault | None:
    """The cause that a wrong shape reveals."""
    bad = [c for c in wrong.compared if c.problem == "shape"]
    if not bad:
        return None
    came, right, gradient = bad[0].claimed, bad[0].truth, wrong.gradient
    cause, what = "wrong shape", f"has the shape {came.shape}, expected {right.shape}."
    if came.ndim < right.ndim:
        cause, what = "summed too far", "has lost an axis: one sum too many, or over too many axes."
    cause, what = by_shape(came, right) or (cause, what)
    question = f"{gradient} must have the shape of {gradient[1:]}. Which axes does yours have, in letters?"
    return _told(wrong, cause, "", question, f"{gradient} {what}")


def _mutant(wrong: Wrong) -> Fault | None:
    """A single mistake in the reference backward that gives these numbers, preferably for all gradients at once."""
    best: Fault | None = None
    names, cases = wrong.exercise.gradients, [outcome.case for outcome in wrong.outcomes]
    for mutant in mutants(wrong.exercise.backward):
        try:
            with np.errstate(all="ignore"):
                results = [named(names, mutant.build(case.upstream, case.cache)) for case in cases]
        except Exception:
            continue  # a mutant that does not run explains nothing
        gradients = _explained(wrong, results)
        if gradients and (best is None or len(gradients) > len(best.gradients)):
            best = Fault(mutant.operator, "", for_mutant(mutant, wrong.gradient), gradients)
    return best


def _pattern(wrong: Wrong) -> Fault | None:
    """The pattern that npformer.check finds in the numbers, if it is the same in every wrong case."""
    read = []
    for outcome, c in zip(wrong.outcomes, wrong.compared, strict=True):
        if c.problem in ("numbers", "not finite") and c.truth.size > 1:
            arguments = dict(zip(wrong.exercise.arguments, outcome.case.arguments, strict=True))
            clues = Clues(outcome.case.sizes, arguments.get("tokens"), None, arguments.get("num_heads"))
            read.append(by_pattern(c.claimed, c.truth, clues))
    if len({diagnosis.cause for diagnosis in read}) != 1 or read[0].cause == "unknown":
        return None
    text = f"{wrong.gradient}: {read[0].text}."
    return _told(wrong, read[0].cause, text, for_gradient(wrong.exercise, wrong.gradient)[0], text)


def _agree(x: Any, y: Any) -> bool:
    """Whether two arrays are equal, for the purpose of recognising a mistake."""
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray | np.generic) or x.shape != np.shape(y):
        return False
    return bool(np.all(np.isfinite(x))) and agree(x, np.asarray(y), max(max_abs(x), 1e-6))


def faults_of(
    exercise: Exercise, source: LearnerFile, outcomes: Sequence[Result], findings: Sequence[Claim]
) -> Iterator[Fault]:
    """The faults: an exception, the forward, the order, the gradients from the output on, and conduct."""
    wrong = [finding.name for finding in findings if not finding.ok]
    failures = [outcome.failure for outcome in outcomes if outcome.failure.get("type", LATE) != LATE]
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
