"""Finds the cause of a wrong gradient, and the hints for it.

In this order: a typical mistake that gives exactly the same numbers on every case; a constant factor; a
telling shape; a mutant of the reference backward with the same numbers; a pattern in the numbers; and if
nothing fits, the exercise's own hints for that gradient. A wrong gradient that equals a typical mistake on every
case *is* that mistake, so the hint can be specific.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check.diagnosis.mutants import mutants
from npformer.check.diagnosis.patterns import Clues, by_pattern
from npformer.check.measures import max_abs
from npformer.lab.grader.cases import Case
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.hints import Hints, for_gradient, for_mutant, told
from npformer.lab.grader.judge import Compared, Result
from npformer.lab.grader.parts import FUNCTIONS
from npformer.lab.grader.tree import as_tuple, named

ALIKE = 1e-7  # of the largest number: the tolerance between a mistake's numbers and its formula's
#: Factors that need no letter, and of two of them what shows and what is wrong.
FACTORS = {"−1": -1.0, "2": 2.0, "1/2": 0.5, "0": 0.0}
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
    compared: Sequence[Compared]


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


def mistaken(exercise: Exercise, case: Case, code: str) -> dict[str, Any]:
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
    pairs = list(zip(wrong.outcomes, results, strict=True))
    if not any(t.gradients[wrong.gradient].problem for t, made in pairs if wrong.gradient in made):
        return ()

    def agrees(name: str) -> bool:
        both = [(t.gradients.get(name), made[name]) for t, made in pairs if name in made]
        return all(c is not None and _agree(c.claimed, x) for c, x in both)

    same = tuple(name for name in dict.fromkeys(name for made in results for name in made) if agrees(name))
    return same if wrong.gradient in same else ()


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
        known = _factors(dict.fromkeys(letters, 1.0) | dict(outcome.case.sizes))
        here = {n for n, value in known.items() if math.isclose(factor, value, rel_tol=1e-6)} or {f"{factor:.4g}"}
        names = here if names is None else names & here
    return _scaled(wrong, min(names, key=lambda n: (n not in FACTORS, len(n), n))) if names else None


def _factors(sizes: Mapping[str, float]) -> dict[str, float]:
    known = dict(FACTORS)
    for letter, length in sizes.items():
        inverse = f"1/({letter})" if "·" in letter or " " in letter else f"1/{letter}"
        known |= {letter: length, inverse: 1 / length}
    return known


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
    cause, hint = "wrong shape", f"{gradient} has the shape {came.shape}, expected {right.shape}."
    if came.ndim == 2 and _agree(came.T, right):
        cause, hint = "transposed", f"{gradient} is right but transposed."
    elif came.size == right.size and _agree(came.reshape(right.shape), right):
        cause = "right numbers in another shape"
        hint = f"The numbers of {gradient} are right; only a reshape is missing."
    elif came.ndim > right.ndim and _agree(came.sum(axis=tuple(range(came.ndim - right.ndim))), right):
        cause, hint = "axes not summed", f"{gradient} still has axes that {gradient[1:]} does not have: sum over them."
    elif came.ndim < right.ndim:
        cause, hint = "summed too far", f"{gradient} has lost an axis: one sum too many, or over too many axes."
    question = f"{gradient} must have the shape of {gradient[1:]}. Which axes does yours have, in letters?"
    return _told(wrong, cause, "", question, hint)


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
            tokens, heads = arguments.get("tokens"), arguments.get("num_heads")
            read.append(by_pattern(c.claimed, c.truth, Clues(outcome.case.sizes, tokens=tokens, num_heads=heads)))
    if len({diagnosis.cause for diagnosis in read}) != 1 or read[0].cause == "unknown":
        return None
    text = f"{wrong.gradient}: {read[0].text}."
    return _told(wrong, read[0].cause, text, for_gradient(wrong.exercise, wrong.gradient)[0], text)


def _agree(x: Any, y: Any) -> bool:
    """Whether two arrays are equal, for the purpose of recognising a mistake."""
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray | np.generic) or x.shape != np.shape(y):
        return False
    scale = max(max_abs(x), max_abs(np.asarray(y)), 1e-6)
    return bool(np.all(np.isfinite(x))) and bool(np.all(np.abs(x - y) <= ALIKE * scale))
