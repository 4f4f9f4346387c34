"""Finds the cause of a wrong gradient, and the hints for it.

In this order: a typical mistake that gives exactly the same numbers on every case; a constant factor; a
telling shape; a mutant of the reference backward with the same numbers; a pattern in the numbers; and if
nothing fits, the exercise's own hints for that gradient. A wrong gradient that equals a typical mistake on every
case *is* that mistake, so the hint can be specific.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from npformer.check.diagnosis.mutants import mutants
from npformer.check.diagnosis.patterns import Clues, by_pattern
from npformer.check.measures import max_abs
from npformer.lab.grader.cases import Case
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.hints import Hints, for_gradient, for_kind, for_mutant
from npformer.lab.grader.judge import Compared, Result
from npformer.lab.grader.mistake import Mistake
from npformer.lab.grader.mistakes_composite import COMPOSITE
from npformer.lab.grader.mistakes_simple import SIMPLE
from npformer.lab.grader.mistakes_tokens import TOKENS
from npformer.lab.grader.tree import as_tuple, named

ALIKE = 1e-7  # of the largest number: the tolerance between a mistake's numbers and its formula's


class Explanation(NamedTuple):
    """Why a gradient is wrong: cause for JSON, the visible effect, and hints from a question to almost the code."""

    cause: str
    seen: str
    hints: Hints
    covers: frozenset[str] = frozenset()  # the gradients whose numbers this mistake gives on every case


def explain(exercise: Exercise, gradient: str, outcomes: Sequence[Result]) -> Explanation:
    """Explain one wrong gradient; outcomes: all cases in which it was computed."""
    usable = [t for t in outcomes if gradient in t.gradients and not t.own_forward]
    compared = [t.gradients[gradient] for t in usable]
    if not compared:
        return _unknown(exercise, gradient)
    for reader in (_kind, _typical, _shapes, _factor, _mutant, _pattern):
        explanation = reader(exercise, gradient, usable, compared)
        if explanation is not None:
            return explanation
    return _unknown(exercise, gradient)


def _unknown(exercise: Exercise, gradient: str) -> Explanation:
    return Explanation("unknown", "", for_gradient(exercise, gradient))


def _kind(
    exercise: Exercise, gradient: str, outcomes: Sequence[Result], compared: Sequence[Compared]
) -> Explanation | None:
    """float32 or NaN, if nothing else is wrong."""
    problems = {c.problem for c in compared if c.problem}
    if len(problems) != 1 or not problems <= {"precision", "not finite"}:
        return None
    (problem_,) = problems
    return Explanation(problem_, "", for_kind(problem_, gradient))


def _typical(
    exercise: Exercise, gradient: str, outcomes: Sequence[Result], compared: Sequence[Compared]
) -> Explanation | None:
    problems = [problem(exercise, outcome.case) for outcome in outcomes]
    for mistake in mistakes_of(exercise):
        with np.errstate(all="ignore"):
            results = [mistake.wrong(p) for p in problems]
        pairs = [(c, r[gradient]) for c, r in zip(compared, results, strict=True) if gradient in r]
        if any(c.problem for c, _ in pairs) and all(_agree(c.claimed, wrong) for c, wrong in pairs):
            return Explanation(mistake.cause, mistake.seen, mistake.hints, _covered(outcomes, results))
    return None


def _covered(outcomes: Sequence[Result], results: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The gradients that a mistake gives, with the learner's numbers on every case in which it gives them."""
    names = {name for by_name in results for name in by_name}
    return frozenset(
        name
        for name in names
        if all(
            name in outcome.gradients and _agree(outcome.gradients[name].claimed, by_name[name])
            for outcome, by_name in zip(outcomes, results, strict=True)
            if name in by_name
        )
    )


def _factor(
    exercise: Exercise, gradient: str, outcomes: Sequence[Result], compared: Sequence[Compared]
) -> Explanation | None:
    """A constant factor, with the same value or the same letter in every case, including cases in which it is 1."""
    letters = {letter for outcome in outcomes for letter in outcome.case.sizes}
    names: set[str] | None = None
    for outcome, c in zip(outcomes, compared, strict=True):
        if c.problem not in ("", "precision", "numbers"):
            return None
        square = float(np.sum(c.truth * c.truth))
        if square < 1e-20:
            continue  # any factor would fit
        factor = float(np.sum(c.claimed * c.truth)) / square
        if not _agree(c.claimed, factor * c.truth) or c.truth.size < 2:
            return None
        sizes = dict.fromkeys(letters, 1.0) | dict(outcome.case.sizes)
        here = {n for n, value in _factors(sizes) if math.isclose(factor, value, rel_tol=1e-6)} or {f"{factor:.4g}"}
        names = here if names is None else names & here
    return _scaled(exercise, gradient, names) if names else None


def _scaled(exercise: Exercise, gradient: str, names: set[str]) -> Explanation:
    """A gradient that is a factor times the right one; names: possible names of the factor."""
    plain: list[str] = [n for n in ("−1", "2", "1/2", "0") if n in names]
    name = (plain or sorted(names, key=lambda n: (len(n), n)))[0]
    seen = f"Every number of {gradient} is {name} times what it should be."
    if name == "0":
        seen = f"{gradient} is 0 everywhere, and should not be."
    if name == "−1":
        seen = f"{gradient} has the right numbers with the opposite sign."
    question = "Which factor is too many, or missing? Follow it through the forward, line by line."
    hint = {"−1": "A minus sign is too many, or missing.", "0": "It is lost on the way, or multiplied by 0."}.get(
        name, f"The factor {name} should not be there."
    )
    return Explanation(f"scaled by {name}", seen, (question, hint, for_gradient(exercise, gradient)[2]))


def _factors(sizes: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    yield from (("−1", -1.0), ("2", 2.0), ("1/2", 0.5), ("0", 0.0))
    for letter, length in sizes.items():
        yield letter, length
        yield f"1/{letter}" if "·" not in letter and " " not in letter else f"1/({letter})", 1 / length


def _shapes(
    exercise: Exercise, gradient: str, outcomes: Sequence[Result], compared: Sequence[Compared]
) -> Explanation | None:
    """The cause that a wrong shape reveals."""
    wrong = [c for c in compared if c.problem == "shape"]
    if not wrong:
        return None
    c = wrong[0]
    came, right = c.claimed, c.truth
    hints = for_gradient(exercise, gradient)
    question = f"{gradient} must have the shape of {gradient[1:]}. Which axes does yours have, in letters?"
    hint = f"{gradient} has the shape {came.shape}, expected {right.shape}."
    cause = "wrong shape"
    if came.ndim == 2 and right.ndim == 2 and _agree(came.T, right):
        cause, hint = "transposed", f"{gradient} is right but transposed."
    elif came.size == right.size and _agree(came.reshape(right.shape), right):
        cause, hint = (
            "right numbers in another shape",
            f"The numbers of {gradient} are right; only a reshape is missing.",
        )
    elif came.ndim > right.ndim and _agree(came.sum(axis=tuple(range(came.ndim - right.ndim))), right):
        cause, hint = "axes not summed", f"{gradient} still has axes that {gradient[1:]} does not have: sum over them."
    elif came.ndim < right.ndim:
        cause, hint = "summed too far", f"{gradient} has lost an axis: one sum too many, or over too many axes."
    return Explanation(cause, "", (question, hint, hints[2]))


def _mutant(
    exercise: Exercise, gradient: str, outcomes: Sequence[Result], compared: Sequence[Compared]
) -> Explanation | None:
    """A single mistake in the reference backward that gives these numbers, preferably for all gradients at once."""
    best: Explanation | None = None
    for mutant in mutants(exercise.backward):
        try:
            with np.errstate(all="ignore"):
                results = [
                    named(exercise.gradients, mutant.build(outcome.case.upstream, outcome.case.cache))
                    for outcome in outcomes
                ]
        except Exception:
            continue  # a mutant that does not run explains nothing
        if not all(_agree(c.claimed, r.get(gradient)) for c, r in zip(compared, results, strict=True)):
            continue
        explained = Explanation(mutant.operator, "", for_mutant(mutant, gradient), _covered(outcomes, results))
        if all(outcome.gradients.keys() <= explained.covers for outcome in outcomes):
            return explained
        best = best or explained
    return best


def _pattern(
    exercise: Exercise, gradient: str, outcomes: Sequence[Result], compared: Sequence[Compared]
) -> Explanation | None:
    """The pattern that npformer.check finds in the numbers, if it is the same in every wrong case."""
    read = [
        by_pattern(c.claimed, c.truth, _clues(exercise, outcome))
        for outcome, c in zip(outcomes, compared, strict=True)
        if c.problem in ("numbers", "not finite") and c.truth.size > 1
    ]
    if not read or len({diagnosis.cause for diagnosis in read}) > 1 or read[0].cause == "unknown":
        return None
    text = f"{gradient}: {read[0].text}."
    question, _, line = for_gradient(exercise, gradient)
    return Explanation(read[0].cause, text, (question, text, line))


def _clues(exercise: Exercise, outcome: Result) -> Clues:
    arguments = dict(zip(exercise.arguments, outcome.case.arguments, strict=True))
    tokens = arguments.get("tokens")
    return Clues(outcome.case.sizes, tokens=tokens, num_heads=arguments.get("num_heads"))


def _agree(x: Any, y: Any) -> bool:
    """Whether two arrays are equal, for the purpose of recognising a mistake."""
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray | np.generic) or x.shape != np.shape(y):
        return False
    if not np.all(np.isfinite(x)):
        return False
    scale = max(max_abs(x), max_abs(np.asarray(y)), 1e-6)
    return bool(np.all(np.abs(x - y) <= ALIKE * scale))


def problem(exercise: Exercise, case: Case) -> SimpleNamespace:
    """A case by name: arguments, upstream gradients (dy, …), outputs (y, …), true gradients (dx, …), cache."""
    upstream = named(exercise.upstream, case.upstream)
    outputs = named(exercise.outputs, case.outputs)
    arguments = dict(zip(exercise.arguments, case.arguments, strict=True))
    true = dict(zip(exercise.gradients, as_tuple(case.gradients), strict=True))
    taken = {f"d_{name[1:]}" if name in true else name: value for name, value in upstream.items()}
    return SimpleNamespace(cache=case.cache, **arguments, **outputs, **true, **taken)


def mistakes_of(exercise: Exercise) -> list[Mistake]:
    """The typical mistakes in an exercise."""
    return (SIMPLE | TOKENS | COMPOSITE).get(exercise.name, [])
