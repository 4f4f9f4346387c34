"""The first wrong line of a learner's backward, where its lines are those of a derivation.

A line that sets a gradient, or a value of the learner's own, is judged as in ``npformer derive``: names that the
exercise's forward has, such as total in softmax, are known, and dtotal is compared with the measured derivative. Lines
that the grammar of derivations does not have are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from npformer.check.derivations import TEMPLATES, judge, read
from npformer.check.derivations.cause import Cause
from npformer.errors import DataError
from npformer.lab.grader.exercises import Exercise
from npformer.lab.grader.source import Source
from npformer.lab.grader.templates import template


def first_wrong_line(exercise: Exercise, source: Source) -> Cause | None:
    """The first wrong line, numbered as in the file, and what it lacks; None if none is found so.

    Names mean what they mean in the template: a file with another forward, or another cache, is left out.
    """
    given, backward = TEMPLATES.get(exercise.name, ""), _function(source.tree, f"{exercise.name}_backward")
    forwards = [_function(tree, f"{exercise.name}_forward") for tree in (source.tree, ast.parse(template(exercise)))]
    if not given or backward is None or backward.lineno <= given.count("\n") + 1:
        return None
    if forwards[0] is None or _body(forwards[0]) != _body(forwards[1]) or not _takes(backward, forwards[0]):
        return None
    rows = given.split("\n") + [""] * (backward.end_lineno or backward.lineno)
    for number, text in _lines(backward, exercise):
        tried = [*rows[: number - 1], text, *rows[number:]]
        with suppress(DataError):  # a line that is no derivation's, or one that uses such a line
            read("\n".join(tried))
            rows = tried
    with suppress(DataError):
        return judge(read("\n".join(rows))).cause
    return None


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def _body(function: ast.FunctionDef | None) -> list[str]:
    """Its statements without the docstring."""
    return [ast.unparse(node) for node in function.body if not isinstance(node, ast.Expr)] if function else []


def _takes(backward: ast.FunctionDef, forward: ast.FunctionDef) -> bool:
    """Whether the backward's names for the cache are the forward's, and it sets none of the forward's anew."""
    kept: Any = forward.body[-1]
    told = ast.unparse(kept.value.elts[1]).strip("()")
    taken = [node for node in backward.body if isinstance(node, ast.Assign)]
    names = [ast.unparse(node.targets[0]).strip("()") for node in taken if ast.unparse(node.value) == "cache"]
    made = {node.id for node in ast.walk(forward) if isinstance(node, ast.Name)}
    return names == [told] and not any(ast.unparse(t) in made for node in taken for t in node.targets[:1]
                                       if ast.unparse(node.value) != "cache")  # fmt: skip


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
