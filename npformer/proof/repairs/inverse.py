"""Changes of existing code: signs, terms, axes, transpositions, choices, indices, constants."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from npformer.proof.mutants import called
from npformer.proof.repairs.nodes import (
    Found,
    Known,
    Site,
    array_of,
    as_index,
    inputs_of,
    is_mask,
    is_operand,
    is_real,
    is_value,
    kind_of,
    literal,
    loaded,
    method,
    parsed,
    renamed,
    stored,
    transposed,
    turned,
)


def outputs(site: Site, known: Known) -> Found:
    match site.get():
        case ast.Return(ast.Tuple(parts)):
            for changed in _exchanges(parts, range(len(parts))):
                yield "swapped outputs", ast.Return(ast.Tuple(changed, ast.Load()))
        case ast.List([first, second], ast.Load()):
            yield "swapped outputs", ast.List([second, first], ast.Load())


def _exchanges(parts: Sequence[Any], places: Iterable[int]) -> Iterator[list[Any]]:
    """The parts, with those at two of these places exchanged."""
    for i, j in itertools.combinations(places, 2):
        changed = list(parts)
        changed[i], changed[j] = parts[j], parts[i]
        yield changed


def signs(site: Site, known: Known) -> Found:
    node = site.get()
    match node:
        case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield "sign", operand
        case ast.BinOp(left, ast.Add(), right):
            yield "sign", ast.BinOp(left, ast.Sub(), right)
        case ast.BinOp(left, ast.Sub(), right):
            yield "sign", ast.BinOp(left, ast.Add(), right)
            yield "sign", ast.BinOp(right, ast.Sub(), left)
        case ast.AugAssign(target, ast.Add() | ast.Sub() as op, value):
            yield "sign", ast.AugAssign(target, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), value)
    if is_value(site, known) and not isinstance(node, ast.UnaryOp) and is_operand(site):
        yield "sign", ast.UnaryOp(ast.USub(), node)


def drops(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            cause = "extra term" if is_real(value) else "wrong place"
            yield cause, left
            yield cause, right
        case ast.BinOp(left, ast.Mult() | ast.MatMult() as op, right):
            yield "extra factor", left
            yield "extra factor", right
            if isinstance(op, ast.Mult):
                yield "wrong factor", ast.BinOp(left, ast.Div(), right)
        case ast.BinOp(left, ast.Div(), right):
            yield "extra factor", left
            yield "wrong factor", ast.BinOp(left, ast.Mult(), right)
            yield "wrong factor", ast.BinOp(right, ast.Div(), left)
        case ast.BinOp(left, ast.FloorDiv() | ast.Pow()):
            yield "extra factor", left
        case ast.AugAssign() if isinstance(site.at, int):
            yield "extra term", ast.Pass()
        case ast.Call(args=[first, *_]) if called(node) in _SHAPE_KEEPING:
            yield "extra factor", first


_SHAPE_KEEPING = frozenset({"sqrt", "exp", "log", "tanh", "abs", "sign", "square", "tril", "triu", "resize"})


def axes(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    if not isinstance(node, ast.Call):
        return
    name = called(node)
    if name in ("sum", "mean"):
        yield "summed axis", renamed(node, "mean" if name == "sum" else "sum")
        inner = array_of(node)
        if inner is not None:
            yield "summed axis", inner
    rank = max(np.ndim(v) for v in (value, *(known.values.get(id(a)) for a in inputs_of(node))))
    if any(keyword.arg == "axis" for keyword in node.keywords):
        singles: list[Any] = [None, *range(rank)]
        for axis in [*singles, *itertools.combinations(range(rank), 2), *itertools.combinations(range(rank), 3)]:
            other = ast.keyword("axis", literal(axis))
            words = [other if keyword.arg == "axis" else keyword for keyword in node.keywords]
            yield "summed axis", ast.Call(node.func, node.args, words)
    elif name in ("sum", "mean"):
        for axis, kept in itertools.product(range(rank), ([], [ast.keyword("keepdims", literal(True))])):
            words = [*node.keywords, ast.keyword("axis", literal(axis)), *kept]
            yield "summed axis", ast.Call(node.func, node.args, words)


def transposes(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    cause = "reshaped" if isinstance(site.parent, ast.Attribute) and site.parent.attr == "reshape" else "transposed"
    match node:
        case ast.Attribute(inner, "T" | "mT"):
            yield "transposed", inner
        case ast.Call(func, [*args], keywords) if called(node) in _TRANSPOSING and (array := array_of(node)):
            yield "transposed", array
            if 1 < len(args) <= 4 and all(isinstance(a, ast.Constant) for a in args):
                for order in itertools.permutations(args):
                    yield "transposed", ast.Call(func, list(order), keywords)
        case ast.BinOp(a, ast.MatMult(), b):
            a_t, b_t = transposed(a), transposed(b)
            for left, right in ((b, a), (a_t, b), (a, b_t), (a_t, b_t), (b_t, a), (b, a_t), (b_t, a_t)):
                yield "transposed", ast.BinOp(left, ast.MatMult(), right)
        case ast.Constant(str(text)) if "->" in text:
            yield from (("transposed", ast.Constant(other)) for other in _other_einsums(text))
    if is_value(site, known):
        for i, j in itertools.combinations(range(np.ndim(value)), 2):
            yield cause, method(node, "swapaxes", i, j)
    match node:
        case ast.Subscript(inner, ast.Tuple(parts), ctx):
            names = [i for i, part in enumerate(parts) if isinstance(part, ast.Name)]
            for changed in _exchanges(parts, names):
                yield "transposed", ast.Subscript(inner, ast.Tuple(changed, ast.Load()), ctx)
        case ast.stmt() if isinstance(site.parent, ast.FunctionDef):
            for name in sorted({n.id for n in ast.walk(site.parent) if isinstance(n, ast.Name)}):
                held: Any = known.pool.get(name)
                if np.ndim(held) == 2:  # wherever it is used
                    turned = ast.Assign([ast.Name(name, ast.Store())], transposed(ast.Name(name, ast.Load())))
                    both = [turned, node] if isinstance(node, ast.Return) else [node, turned]
                    yield "transposed", ast.If(ast.Constant(True), both, [])


_TRANSPOSING = ("transpose", "swapaxes", "matrix_transpose", "moveaxis")


def turns(site: Site, known: Known) -> Found:
    """An axis reversed, or no longer reversed."""
    node, value = known.at(site)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield "reshaped", node.value
    if not is_value(site, known) or np.size(value) < 2:
        return
    for axis in range(np.ndim(value)):
        yield "reshaped", turned(node, axis, np.ndim(value))
        if isinstance(node, ast.Call) and called(node) in ("cumsum", "cumprod", "accumulate") and node.args:
            inner = turned(node.args[0], axis, np.ndim(value))
            yield "reshaped", turned(ast.Call(node.func, [inner, *node.args[1:]], node.keywords), axis, np.ndim(value))


def _other_einsums(text: str) -> Iterator[str]:
    """Subscripts with two letters exchanged in one operand."""
    parts, _, out = text.partition("->")
    operands = parts.split(",")
    for n, operand in enumerate(operands):
        for letters in _exchanges(operand, range(len(operand))):
            yield f"{','.join([*operands[:n], ''.join(letters), *operands[n + 1 :]])}->{out}"


def branches(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    match node:
        case ast.Compare(left, [old], right):
            for op in (ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Eq, ast.NotEq):
                if not isinstance(old, op):
                    yield "wrong branch", ast.Compare(left, [op()], right)
        case ast.Call(func, [condition, yes, no]) if called(node) == "where":
            yield "wrong branch", ast.Call(func, [condition, no, yes], [])
            yield "extra factor", yes
            yield "extra factor", no
            for changed in (ast.UnaryOp(ast.USub(), no), literal(0)):
                yield "wrong branch", ast.Call(func, [condition, yes, changed], [])
        case ast.UnaryOp(ast.Invert() | ast.Not(), operand):
            yield "wrong branch", operand
    if is_value(site, known) and is_mask(value) and not isinstance(node, ast.UnaryOp):
        yield "wrong branch", ast.UnaryOp(ast.Invert(), node)
        for text, mask in known.pool.items():
            if is_mask(mask) and np.shape(mask) == np.shape(value):
                yield "wrong branch", ast.BinOp(node, ast.BitAnd(), parsed(text))
    if isinstance(node, ast.Call) and called(node) in _OPPOSITES:
        yield "wrong branch", renamed(node, _OPPOSITES[called(node)])


_OPPOSITES = {
    "maximum": "minimum", "minimum": "maximum", "argmax": "argmin", "argmin": "argmax", "tril": "triu", "triu": "tril",
    "sin": "cos", "cos": "sin", "floor": "ceil", "ceil": "floor", "max": "min", "min": "max",
}  # fmt: skip


def places(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    if isinstance(node, ast.Slice):
        lower, upper, step = node.lower, node.upper, node.step
        for by in (1, -1) if lower else ():
            yield "wrong place", ast.Slice(_moved(lower, by), upper, step)
        for by in (1, -1) if upper else ():
            yield "wrong place", ast.Slice(lower, _moved(upper, by), step)
        if lower and not upper:
            yield "wrong place", ast.Slice(None, ast.UnaryOp(ast.USub(), lower), step)
        if upper and not lower:
            yield "wrong place", ast.Slice(ast.UnaryOp(ast.USub(), upper), None, step)
        if step:
            yield "wrong place", ast.Slice(None if lower else literal(1), upper, step)
    is_index = isinstance(value, int | np.integer) or kind_of(value) in "iu"
    if is_index and not isinstance(value, bool) and isinstance(node, ast.expr) and not _is_axis(site):
        is_inside = site.field == "slice" or isinstance(site.parent, ast.Slice | ast.Call | ast.Tuple | ast.Assign)
        cause = "wrong factor" if _is_power(site) else "wrong place" if is_inside else "wrong constant"
        for by in (1, -1):
            yield cause, _moved(node, by)
        for text, other in known.pool.items():
            if kind_of(other) in "iu" and np.shape(other) == np.shape(value) and text != ast.unparse(node):
                yield "wrong place", parsed(text)


def _moved(node: Any, by: int) -> ast.BinOp:
    return ast.BinOp(node, ast.Add(), literal(by))


def _is_power(site: Site) -> bool:
    return isinstance(site.parent, ast.BinOp) and isinstance(site.parent.op, ast.Pow) and site.field == "right"


def _is_axis(site: Site) -> bool:
    return isinstance(site.parent, ast.keyword) and site.parent.arg in ("axis", "keepdims", "axes")


#: The largest integer used as a replacement, since it may be a number of repetitions.
MOST_INTEGER = 64


def constants(site: Site, known: Known) -> Found:
    match site.get():
        case ast.Constant(int() | float() as c) if not isinstance(c, bool) and not _is_axis(site):
            is_any = isinstance(c, float)
            own = [k for k in known.constants if is_any or (isinstance(k, int) and abs(k) <= MOST_INTEGER)]
            near = [k for k in known.constants if c and k != c and abs(k - c) <= 0.02 * abs(c)]
            others = [2 * c, 3 * c, c + 1, c - 1, -c, *([c / 2, 1 / c] if c else [])]
            for other in [*near, *own, *others]:
                if other != c:
                    yield "wrong factor" if _is_power(site) else "wrong constant", literal(other)


def accumulation(site: Site, known: Known) -> Found:
    match site.get():
        case ast.Assign([target, *others], value):
            if not others and not isinstance(target, ast.Tuple):
                is_once = isinstance(target, ast.Name) and isinstance(site.parent, ast.FunctionDef)
                cause = "missing term" if is_once else "not accumulated"
                yield cause, ast.AugAssign(stored(target), ast.Add(), value)
        case ast.AugAssign(target, _, value):
            pass
        case _:
            return
    if isinstance(target, ast.Subscript):
        add_at = parsed("__import__('numpy').add.at")
        where = [target.value, as_index(target.slice), value]
        yield "not accumulated", ast.Expr(ast.Call(add_at, [loaded(each) for each in where], []))


#: In the order in which they are tried.
CHANGES = (outputs, signs, drops, axes, transposes, branches, places, turns, constants, accumulation)
