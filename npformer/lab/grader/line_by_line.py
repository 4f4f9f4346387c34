"""The first wrong line of a learner's backward, where its lines are those of a derivation.

A line that sets a gradient, or a value of the learner's own, is judged as in ``npformer derive``: names that the
exercise's forward has, such as total in softmax, are known, and dtotal is compared with the measured derivative. Lines
that the grammar of derivations does not have are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress

from npformer.check.derivations import TEMPLATES, judge, read
from npformer.check.derivations.cause import Cause
from npformer.errors import DataError
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.source import Source


def first_wrong_line(exercise: Exercise, source: Source) -> Cause | None:
    """The first wrong line, numbered as in the file, and what it lacks; None if none is found so."""
    forward = TEMPLATES.get(exercise.name, "")
    backward = next((node for node in source.tree.body if isinstance(node, ast.FunctionDef)
                     and node.name == f"{exercise.name}_backward"), None)  # fmt: skip
    if not forward or backward is None or backward.lineno <= forward.count("\n") + 1:
        return None
    rows = forward.split("\n") + [""] * (backward.end_lineno or backward.lineno)
    for number, text in _lines(backward, exercise):
        tried = [*rows[: number - 1], text, *rows[number:]]
        with suppress(DataError):  # a line that is no derivation's: one more, or one that uses it
            read("\n".join(tried))
            rows = tried
    with suppress(DataError):
        return judge(read("\n".join(rows))).cause
    return None


def _lines(backward: ast.FunctionDef, exercise: Exercise) -> Iterator[tuple[int, str]]:
    """(number, name = expression) of assignments, and of what is returned for a gradient that has no line."""
    named = set[str]()
    for node in backward.body:
        match node:
            case ast.Assign([ast.Name(name)], value):
                named.add(name)
                yield node.lineno, f"{name} = {ast.unparse(value)}"
            case ast.Return(value) if value is not None:
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                left = [(g, p) for g, p in zip(exercise.gradients, parts, strict=False) if g not in named]
                yield from ((node.lineno, f"{gradient} = {ast.unparse(part)}") for gradient, part in left[:1])
