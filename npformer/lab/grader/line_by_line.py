"""The values that a learner's backward gives to names of the forward with a d before them, against the true ones.

h of the forward has dh, the derivative of Σ dy·y by h: it is measured, by a change of h after its line. However a line
sets its names, what it gave them is compared: the result of a call, one of several names, or a change in place.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from npformer.check.derivations.point import measured
from npformer.check.measures import max_abs
from npformer.check.report import RIGHT, WRONG, Claim
from npformer.io.child.values import as_tuple
from npformer.lab.grader.exercises import Exercise, ExerciseCase
from npformer.lab.grader.grading import Result
from npformer.lab.grader.parts import TEXTS
from npformer.lab.grader.source import LearnerFile
from npformer.typing import HostArray

#: Relative to the largest entry: a value this near to the measured derivative is right.
NEAR = 1e-6


def lines_of(exercise: Exercise, source: LearnerFile, outcome: Result) -> list[Claim]:
    """The comparison on one case; empty if the forward is another one than the template's."""
    if _body(source.tree, exercise.functions[0]) != _given(exercise):
        return []
    return compared(exercise, outcome.case, source.tree, outcome.lines, outcome.returned)


def compared(
    exercise: Exercise, case: ExerciseCase, tree: ast.Module, lines: dict[str, tuple[int, Any]], returned: Sequence[Any]
) -> list[Claim]:
    """A claim for each name that is compared, in the order of their lines; the first wrong one is the last.

    tree: with the backward; lines: name -> (line, encoded value), of it; returned: its results.
    """
    forward, judged = _Forward(exercise, case), list[Claim]()
    results = dict(zip(exercise.gradients, zip(returned, as_tuple(case.gradients), strict=False), strict=False))
    added = set(_added(ast.parse("\n".join(_body(tree, exercise.functions[1])))))
    for name, (line, value) in sorted(lines.items(), key=lambda item: item[1][0]):
        result, truth = results.get(name, (value, None))
        shares = forward.shares(name[1:])
        if shares:
            truth = sum(shares)
        if not isinstance(truth, np.ndarray) or not _is(value, result):
            continue  # of no name of the forward; or a part of what is returned
        subsets = [set for size in range(1, len(shares)) for set in combinations(shares, size)]
        if name in added and any(_is(value, sum(subset)) for subset in subsets):
            continue  # the share of some lines, to which those of others are added
        verdict, on = RIGHT if _is(value, truth) else WRONG, f"on “{case.label}”"
        judged.append(Claim(name, f"the derivative by {name[1:]}", verdict, on, line=line))
        if verdict == WRONG:
            break
    return judged


def _is(value: Any, truth: Any) -> bool:
    """Whether the numbers are the same, in any shape."""
    a, n = np.ravel(value), np.ravel(truth)
    return a.shape == n.shape and max_abs(a - n) <= NEAR * max(max_abs(n), 1e-12)


class _Forward:
    """An exercise's forward at a case, statement by statement."""

    def __init__(self, exercise: Exercise, case: ExerciseCase) -> None:
        *lines, last = _given(exercise)
        lines.append(f"y, _ = {last.removeprefix('return ')}")
        self._trees, self._codes = list(map(ast.parse, lines)), [compile(line, "<a line>", "exec") for line in lines]
        self._case, self._scope = case, dict[str, Any](exercise.forward.__globals__)
        values, self._states = dict(zip(exercise.arguments, case.arguments, strict=True)), list[dict[str, Any]]()
        for code in self._codes:
            exec(code, self._scope, values)
            self._states.append(dict(values))
        counts = Counter(name for tree in self._trees[:-1] for name in _names(tree, ast.Store))
        self._once = {name for name, n in counts.items() if n == 1} - {*exercise.outputs, *exercise.arguments}

    def shares(self, name: str) -> list[HostArray]:
        """The measured shares of dNAME, through each statement that uses NAME; none of a name that is no such array."""
        value = self._states[-1].get(name)
        if name not in self._once or not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return []
        at = next(i for i, tree in enumerate(self._trees) if name in _names(tree, ast.Store))
        users = [i for i, tree in enumerate(self._trees) if i > at and name in _names(tree, ast.Load)]

        def through(user: int) -> HostArray:
            def loss(x: Any) -> Any:
                values = {**self._states[user - 1], name: x}  # this statement alone sees the change
                for code in self._codes[user:]:
                    exec(code, self._scope, values)
                    values[name] = value
                outputs = zip(as_tuple(self._case.upstream), as_tuple(values["y"]), strict=True)
                return sum(np.sum(dy * y) for dy, y in outputs)

            return measured(loss, value, ())

        return [through(user) for user in users]


def _given(exercise: Exercise) -> list[str]:
    """The statements of the template's forward."""
    return _body(ast.parse(TEXTS[exercise.functions[0]]), exercise.functions[0])


def _body(tree: ast.Module, name: str) -> list[str]:
    """A function's statements, without its docstring; none if there is no such function."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return [ast.unparse(statement) for statement in node.body if not isinstance(statement, ast.Expr)]
    return []


def _names(tree: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    nodes = ast.walk(tree)
    return (node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context))


def _added(tree: ast.Module) -> Iterator[str]:
    """The names that are parts of a sum."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from (part.id for part in (node.left, node.right) if isinstance(part, ast.Name))
