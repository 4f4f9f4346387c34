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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

from npformer.check.causes.nodes import sites
from npformer.check.checkable import listed, tree_of

Function = Callable[..., Any]
_numbers = itertools.count()
#: (operator, replacement) pairs.
Mistakes = Iterator[tuple[str, ast.expr]]


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
    if isinstance(node, ast.BinOp):
        yield from _binary(node)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OPPOSITE:
        yield "flip a choice", ast.Compare(node.left, [_OPPOSITE[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _returned(node.value)


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.GtE: ast.LtE, ast.LtE: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


def _times(factor: int, node: ast.expr) -> ast.expr:
    return ast.BinOp(ast.Constant(factor), ast.Mult(), node)


def _binary(node: ast.BinOp) -> Mistakes:
    left, right = node.left, node.right
    minus_right = ast.UnaryOp(ast.USub(), right)
    if isinstance(node.op, ast.Add):
        yield "drop a term", left
        yield "drop a term", right
        yield "change a sign", ast.BinOp(left, ast.Sub(), right)
    elif isinstance(node.op, ast.Sub):
        yield "drop a term", left
        yield "drop a term", minus_right
        yield "change a sign", ast.BinOp(left, ast.Add(), right)
        yield "swap operands", ast.BinOp(right, ast.Sub(), left)
    elif isinstance(node.op, ast.Mult):
        yield "drop a factor", left
        yield "drop a factor", right
        yield "scale by 2", _times(2, node)
    elif isinstance(node.op, ast.Div):
        yield "drop a factor", left
        yield "swap operands", ast.BinOp(right, ast.Div(), left)


def called(node: ast.Call) -> str:
    """The name of the function or method that is called, without what stands before its dot."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _call(node: ast.Call) -> Mistakes:
    name = called(node)
    if name == "matmul":
        yield "swap operands", ast.Call(node.func, [node.args[1], node.args[0]], node.keywords)
        yield "scale by 2", _times(2, node)
    elif name == "matrix_transpose":
        yield "drop a transpose", node.args[0]
    elif name == "where":
        yield "flip a choice", ast.Call(node.func, [node.args[0], node.args[2], node.args[1]], node.keywords)
        yield "drop the choice", node.args[1]
    elif name in ("sum", "mean") and isinstance(node.func, ast.Attribute):
        other = ast.Attribute(node.func.value, "mean" if name == "sum" else "sum", ast.Load())
        yield "sum to mean", ast.Call(other, node.args, node.keywords)
        yield "change a sign", ast.UnaryOp(ast.USub(), node)
    for keyword in node.keywords:
        if keyword.arg == "axis":
            yield from _shifted_axis(node, keyword)


def _shifted_axis(node: ast.Call, keyword: ast.keyword) -> Mistakes:
    try:
        axis = ast.literal_eval(keyword.value)
    except ValueError:
        return
    if isinstance(axis, int):
        moved = ast.keyword("axis", ast.Constant(axis - 1 if axis < 0 else axis + 1))
        others = [k for k in node.keywords if k is not keyword]
        yield "shift an axis", ast.Call(node.func, node.args, [*others, moved])


def elements(value: ast.expr) -> list[ast.expr]:
    """The parts of a tuple, or the one value."""
    return value.elts if isinstance(value, ast.Tuple) else [value]


def _returned(value: ast.expr) -> Mistakes:
    """For each returned gradient its negative and its double; for two neighbours the other order."""
    parts = elements(value)
    for i, part in enumerate(parts):
        for operator, wrong in (
            ("change a sign", ast.UnaryOp(ast.USub(), part)),
            ("scale by 2", _times(2, part)),
            ("return zero", _times(0, part)),
        ):
            changed: list[ast.expr] = [*parts[:i], wrong, *parts[i + 1 :]]
            yield operator, ast.Tuple(changed, ast.Load()) if isinstance(value, ast.Tuple) else wrong
    for i in range(len(parts) - 1):
        swapped = [*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]]
        yield "swap outputs", ast.Tuple(swapped, ast.Load())


@cache
def _code(function: Function, code: CodeType) -> CodeType:
    return _compiled(function, tree_of(function)[0])


def _compiled(function: Function, tree: ast.Module) -> CodeType:
    """The code of a tree, whose text ``inspect`` finds."""
    text = ast.unparse(tree)
    return compile(text, listed(text, f"<mutant {next(_numbers)} of {function.__name__}>"), "exec")


def _built(function: Function, code: CodeType, instead: Mapping[str, Any] | None = None) -> Any:
    """The function that code defines, in the namespace of the original, with some names replaced."""
    original: Any = inspect.unwrap(function)
    names = original.__globals__ | dict(inspect.getclosurevars(original).nonlocals) | dict(instead or {})
    exec(code, names)
    return names[function.__name__]
