"""Typical wrong answers, each with its formula and with hints for the learner who wrote it.

A wrong gradient that equals one of these on every case *is* that mistake, so the hint can be
specific. Other errors are left to the mutants and patterns of ``npformer.proof``.
"""

from __future__ import annotations

from types import SimpleNamespace

from npformer.lab.grader.cases import Case
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.mistake import Mistake
from npformer.lab.grader.mistakes_composite import COMPOSITE
from npformer.lab.grader.mistakes_simple import SIMPLE
from npformer.lab.grader.mistakes_tokens import TOKENS
from npformer.lab.grader.tree import as_tuple, named


def problem(exercise: Exercise, case: Case) -> SimpleNamespace:
    """A case by name: arguments, upstream gradients (dy, …), outputs (y, …) and true gradients (dx, …)."""
    upstream = named(exercise.upstream, case.upstream)
    outputs = named(exercise.outputs, case.outputs)
    arguments = dict(zip(exercise.arguments, case.arguments, strict=True))
    true = dict(zip(exercise.gradients, as_tuple(case.gradients), strict=True))
    taken = {f"d_{name[1:]}" if name in true else name: value for name, value in upstream.items()}
    return SimpleNamespace(**arguments, **outputs, **true, **taken)


def mistakes_of(exercise: Exercise) -> list[Mistake]:
    """The typical mistakes in an exercise."""
    return (SIMPLE | TOKENS | COMPOSITE).get(exercise.name, [])
