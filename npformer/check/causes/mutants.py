"""Wrong versions of a function, made from its own syntax tree, one small mistake each.

    drop a term       a + b → a          change a sign     a + b → a − b, sum(a) → −sum(a), return x → return −x
    drop a factor     a·b → a, a/b → a   scale by 2        a·b → 2(a·b), return x → return 2x
    swap operands     a − b → b − a, a/b → b/a, matmul(a, b) → matmul(b, a)
    drop a transpose  matrix_transpose(a) → a
    shift an axis     axis=0 → axis=1    sum to mean       sum(a) → mean(a), and back
    flip a choice     where(c, a, b) → where(c, b, a), a > b → a < b
    drop the choice   where(c, a, b) → a
    swap outputs      return a, b → return b, a
    return zero       return a, b → return a, 0·b

These are the mistakes people make in a backward pass. A check that misses one that changes a
gradient has a hole. The grader explains a learner's gradient that equals one.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

from npformer.check.causes.nodes import rewritten, sites
from npformer.check.checkable import listed, tree_of
from npformer.typing import Function, Named

_numbers = itertools.count()
#: (operator, replacement) pairs.
Mistakes = Iterator[tuple[str, Any]]


@dataclass(frozen=True)
class Mutant:
    """One wrong version: the mistake, its place, and the function itself."""

    operator: str  # "drop a term", …
    function: str  # name of the function that was changed
    line: int  # in its file
    before: str  # the original expression
    after: str  # the changed expression
    build: Function  # the wrong function
    source: str  # its text

    def describe(self) -> str:
        """The mistake in a line."""
        return f"{self.operator}: `{self.before}` became `{self.after}` ({self.function}, line {self.line})"


def mutants(function: Function) -> list[Mutant]:
    """Every single-mistake version of a Python function, in the order of its lines."""
    versions = _versions(function, inspect.unwrap(function).__code__)
    return [Mutant(*version.named, _built(function, version.code), version.source) for version in versions]


def nested_mutants(function: Function) -> list[Mutant]:
    """``mutants`` of a function, and of every backward that it calls, each built into the whole.

    So attention with a mistake in its softmax is among the mutants of attention.
    """
    all_mutants, code = mutants(function), function.__code__
    for name in code.co_names:
        part = function.__globals__.get(name)
        if name.endswith("_backward") and inspect.isfunction(part):
            for mutant in nested_mutants(part):
                all_mutants.append(replace(mutant, build=_built(function, _code(function, code), {name: mutant.build})))
    return all_mutants


class _Version(NamedTuple):
    """A mutant before it is built: compiling is slow, so it is done once for each function."""

    named: tuple[str, str, int, str, str]  # operator, function, line, before, after
    code: CodeType
    source: str


@cache
def _versions(function: Function, code: CodeType) -> tuple[_Version, ...]:
    """code is the function's own: where another has taken its place, as in the museum, its mutants are others."""
    tree, first = tree_of(function)
    places = {id(site.get()): site for site in sites(tree)}
    seen = {ast.unparse(tree)}  # x·x with swapped factors is no mistake; two mistakes with the same result are one
    versions = []
    for node in list(ast.walk(tree)):
        target = node.value if isinstance(node, ast.Return) and node.value is not None else node
        for operator, replacement in _mistakes(node):
            line = first + getattr(node, "lineno", 1) - 1
            named = (operator, function.__name__, line, ast.unparse(target), ast.unparse(replacement))
            if not hasattr(replacement, "lineno"):  # no part of the original
                ast.fix_missing_locations(ast.copy_location(replacement, target))
            places[id(target)].put(replacement)
            source = ast.unparse(tree)
            if source not in seen:
                seen.add(source)
                versions.append(_Version(named, _compiled(function, tree), source))
            places[id(target)].put(target)
    return tuple(sorted(versions, key=lambda v: (v.named[2], v.named[0], v.named[3], v.named[4])))


def _mistakes(node: ast.AST) -> Mistakes:
    """(operator, replacement) pairs for one node of the tree."""
    yield from rewritten(node, _RULES)
    if isinstance(node, ast.Call):
        yield from _shifted_axes(node)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _returned(node.value)


_RULES = {
    "drop a term": ("a + b → a", "a + b → b", "a - b → a", "a - b → -b"),
    "change a sign": ("a + b → a - b", "a - b → a + b", "a.sum(*r, **k) → -a.sum(*r, **k)",
                      "a.mean(*r, **k) → -a.mean(*r, **k)"),
    "swap operands": ("a - b → b - a", "a / b → b / a", "matmul(a, b, **k) → matmul(b, a, **k)"),
    "drop a factor": ("a * b → a", "a * b → b", "a / b → a"),
    "scale by 2": ("a * b → 2 * (a * b)", "matmul(*r, **k) → 2 * matmul(*r, **k)"),
    "drop a transpose": ("matrix_transpose(a, *r, **k) → a",),
    "flip a choice": ("where(c, a, b, **k) → where(c, b, a, **k)", "a > b → a < b", "a < b → a > b", "a >= b → a <= b",
                      "a <= b → a >= b", "a == b → a != b", "a != b → a == b"),
    "drop the choice": ("where(c, a, b, **k) → a",),
    "sum to mean": ("a.sum(*r, **k) → a.mean(*r, **k)", "a.mean(*r, **k) → a.sum(*r, **k)"),
}  # fmt: skip


def called(node: ast.Call) -> str:
    """The name of the function or method that is called, without what stands before its dot."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _shifted_axes(node: ast.Call) -> Mistakes:
    for keyword in node.keywords:
        match keyword:
            case ast.keyword("axis", ast.Constant(int(axis)) | ast.UnaryOp(ast.USub(), ast.Constant(int(axis)))):
                is_last = isinstance(keyword.value, ast.UnaryOp)
                moved = ast.keyword("axis", ast.Constant(-axis - 1 if is_last else axis + 1))
                others = [k for k in node.keywords if k is not keyword]
                yield "shift an axis", ast.Call(node.func, node.args, [*others, moved])


def elements(value: ast.expr) -> list[ast.expr]:
    """The parts of a tuple, or the one value."""
    return value.elts if isinstance(value, ast.Tuple) else [value]


def _returned(value: ast.expr) -> Mistakes:
    """For each returned gradient its negative and its double; for two neighbours the other order."""
    parts = elements(value)
    for i, part in enumerate(parts):
        for operator, wrong in rewritten(part, _OF_RESULTS):
            changed: list[Any] = [*parts[:i], wrong, *parts[i + 1 :]]
            yield operator, ast.Tuple(changed, ast.Load()) if isinstance(value, ast.Tuple) else wrong
    for i in range(len(parts) - 1):
        yield "swap outputs", ast.Tuple([*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]], ast.Load())


_OF_RESULTS = {"change a sign": ["a → -a"], "scale by 2": ["a → 2 * a"], "return zero": ["a → 0 * a"]}


@cache
def _code(function: Function, code: CodeType) -> CodeType:
    return _compiled(function, tree_of(function)[0])


def _compiled(function: Function, tree: ast.Module) -> CodeType:
    """The code of a tree, whose text ``inspect`` finds."""
    text = ast.unparse(tree)
    return compile(text, listed(text, f"<mutant {next(_numbers)} of {function.__name__}>"), "exec")


def _built(function: Function, code: CodeType, instead: Named | None = None) -> Any:
    """The function that code defines, in the namespace of the original, with some names replaced."""
    original: Any = inspect.unwrap(function)
    names = original.__globals__ | dict(inspect.getclosurevars(original).nonlocals) | dict(instead or {})
    exec(code, names)
    return names[function.__name__]
