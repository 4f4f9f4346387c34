"""Changes of existing code: signs, terms, axes, transpositions, choices, indices, constants."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer.proof.repairs.nodes import (
    Found,
    Known,
    Site,
    as_index,
    called,
    inputs_of,
    is_mask,
    is_module,
    is_operand,
    is_real,
    is_value,
    literal,
    loaded,
    parsed,
    renamed,
    stored,
    transposed,
    turned,
)


def outputs(site: Site, known: Known) -> Found:
    node = site.get()
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        parts = node.value.elts
        for i, j in itertools.combinations(range(len(parts)), 2):
            changed = list(parts)
            changed[i], changed[j] = parts[j], parts[i]
            yield "swapped outputs", ast.Return(ast.Tuple(changed, ast.Load()))
    if isinstance(node, ast.List) and len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
        yield "swapped outputs", ast.List(node.elts[::-1], ast.Load())


def signs(site: Site, known: Known) -> Found:
    node = site.get()
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign", node.operand
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "sign", ast.BinOp(node.left, other, node.right)
        if isinstance(node.op, ast.Sub):
            yield "sign", ast.BinOp(node.right, ast.Sub(), node.left)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        yield "sign", ast.AugAssign(node.target, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.value)
    if is_value(site, known) and not isinstance(node, ast.UnaryOp) and is_operand(site):
        yield "sign", ast.UnaryOp(ast.USub(), node)


def drops(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add | ast.Sub):
            cause = "extra term" if is_real(value) else "wrong place"
            yield cause, node.left
            yield cause, node.right
        elif isinstance(node.op, ast.Mult | ast.MatMult | ast.Div | ast.FloorDiv):
            yield "extra factor", node.left
            if not isinstance(node.op, ast.Div | ast.FloorDiv):
                yield "extra factor", node.right
        elif isinstance(node.op, ast.Pow):
            yield "extra factor", node.left
        if isinstance(node.op, ast.Mult):
            yield "wrong factor", ast.BinOp(node.left, ast.Div(), node.right)
        if isinstance(node.op, ast.Div):
            yield "wrong factor", ast.BinOp(node.left, ast.Mult(), node.right)
            yield "wrong factor", ast.BinOp(node.right, ast.Div(), node.left)
    if isinstance(node, ast.AugAssign) and isinstance(site.at, int):
        yield "extra term", ast.Pass()
    if isinstance(node, ast.Call) and called(node) in _SHAPE_KEEPING and node.args:
        yield "extra factor", node.args[0]


_SHAPE_KEEPING = frozenset({"sqrt", "exp", "log", "tanh", "abs", "sign", "square", "tril", "triu", "resize"})


def axes(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    if isinstance(node, ast.keyword) and node.arg == "axis":
        return
    if not isinstance(node, ast.Call):
        return
    name = called(node)
    if name in ("sum", "mean"):
        yield "summed axis", renamed(node, "mean" if name == "sum" else "sum")
        inner = node.func.value if isinstance(node.func, ast.Attribute) and not is_module(node) else None
        inner = inner or (node.args[0] if node.args else None)
        if inner is not None:
            yield "summed axis", inner
    rank = max((np.ndim(v) for v in (value, *(known.values.get(id(a)) for a in inputs_of(node)))), default=0)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg == "axis":
            singles: list[Any] = [None, *range(rank)]
            for axis in [*singles, *itertools.combinations(range(rank), 2), *itertools.combinations(range(rank), 3)]:
                words = [*node.keywords[:i], ast.keyword("axis", literal(axis)), *node.keywords[i + 1 :]]
                yield "summed axis", ast.Call(node.func, node.args, words)
    if name in ("sum", "mean") and not any(k.arg == "axis" for k in node.keywords):
        for axis, kept in itertools.product(range(rank), ([], [ast.keyword("keepdims", literal(True))])):
            words = [*node.keywords, ast.keyword("axis", literal(axis)), *kept]
            yield "summed axis", ast.Call(node.func, node.args, words)


def transposes(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    cause = "reshaped" if isinstance(site.parent, ast.Attribute) and site.parent.attr == "reshape" else "transposed"
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield "transposed", node.value
    if isinstance(node, ast.Call) and called(node) in ("transpose", "swapaxes", "matrix_transpose", "moveaxis"):
        inner = node.func.value if isinstance(node.func, ast.Attribute) and not is_module(node) else node.args[0]
        yield "transposed", inner
        numbers = [a for a in node.args if isinstance(a, ast.Constant)]
        if 1 < len(numbers) <= 4 and len(numbers) == len(node.args):
            for order in itertools.permutations(numbers):
                yield "transposed", ast.Call(node.func, list(order), node.keywords)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        a, b = node.left, node.right
        a_t, b_t = transposed(a), transposed(b)
        for left, right in ((b, a), (a_t, b), (a, b_t), (a_t, b_t), (b_t, a), (b, a_t), (b_t, a_t)):
            yield "transposed", ast.BinOp(left, ast.MatMult(), right)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "->" in node.value:
        yield from (("transposed", ast.Constant(text)) for text in _other_einsums(node.value))
    if is_value(site, known) and np.ndim(value) >= 2:
        for i, j in itertools.combinations(range(np.ndim(value)), 2):
            yield cause, ast.Call(ast.Attribute(node, "swapaxes", ast.Load()), [literal(i), literal(j)], [])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        names = [i for i, part in enumerate(parts) if isinstance(part, ast.Name)]
        for i, j in itertools.combinations(names, 2):
            changed = list(parts)
            changed[i], changed[j] = parts[j], parts[i]
            yield "transposed", ast.Subscript(node.value, ast.Tuple(changed, ast.Load()), node.ctx)
    if isinstance(node, ast.stmt) and site.at is not None and isinstance(site.parent, ast.FunctionDef):
        for name in sorted({n.id for n in ast.walk(site.parent) if isinstance(n, ast.Name)}):
            held: Any = known.pool.get(name)
            if np.ndim(held) == 2:  # wherever it is used
                turned = ast.Assign([ast.Name(name, ast.Store())], transposed(ast.Name(name, ast.Load())))
                after = not isinstance(node, ast.Return)
                yield "transposed", ast.If(ast.Constant(True), [node, turned] if after else [turned, node], [])


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
        for i, j in itertools.combinations(range(len(operand)), 2):
            letters = list(operand)
            letters[i], letters[j] = letters[j], letters[i]
            yield f"{','.join([*operands[:n], ''.join(letters), *operands[n + 1 :]])}->{out}"


def branches(site: Site, known: Known) -> Found:
    node, value = known.at(site)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for op in (ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Eq, ast.NotEq):
            if not isinstance(node.ops[0], op):
                yield "wrong branch", ast.Compare(node.left, [op()], node.comparators)
    if isinstance(node, ast.Call) and called(node) == "where" and len(node.args) == 3:
        condition, yes, no = node.args
        yield "wrong branch", ast.Call(node.func, [condition, no, yes], [])
        yield "extra factor", yes
        yield "extra factor", no
        for changed in (ast.UnaryOp(ast.USub(), no), literal(0)):
            yield "wrong branch", ast.Call(node.func, [condition, yes, changed], [])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.Not):
        yield "wrong branch", node.operand
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
        for field in ("lower", "upper"):
            bound = getattr(node, field)
            for step in (1, -1):
                if bound is not None:
                    changed = copy.copy(node)
                    setattr(changed, field, ast.BinOp(bound, ast.Add(), literal(step)))
                    yield "wrong place", changed
        if node.lower is not None and node.upper is None:
            yield "wrong place", ast.Slice(None, ast.UnaryOp(ast.USub(), node.lower), node.step)
        if node.upper is not None and node.lower is None:
            yield "wrong place", ast.Slice(ast.UnaryOp(ast.USub(), node.upper), None, node.step)
        if node.step is not None and node.lower is None:
            yield "wrong place", ast.Slice(literal(1), node.upper, node.step)
        if node.step is not None and node.lower is not None:
            yield "wrong place", ast.Slice(None, node.upper, node.step)
    is_index = isinstance(value, int | np.integer) or getattr(value, "dtype", np.dtype(float)).kind in "iu"
    if is_index and not isinstance(value, bool) and isinstance(node, ast.expr) and not _is_axis(site):
        is_inside = site.field == "slice" or isinstance(site.parent, ast.Slice | ast.Call | ast.Tuple | ast.Assign)
        for step in (1, -1):
            cause = "wrong factor" if _is_power(site) else "wrong place" if is_inside else "wrong constant"
            yield cause, ast.BinOp(node, ast.Add(), literal(step))
        for text, other in known.pool.items():
            kind = getattr(other, "dtype", np.dtype(float)).kind
            if kind in "iu" and np.shape(other) == np.shape(value) and text != ast.unparse(node):
                yield "wrong place", parsed(text)


def _is_power(site: Site) -> bool:
    return isinstance(site.parent, ast.BinOp) and isinstance(site.parent.op, ast.Pow) and site.field == "right"


def _is_axis(site: Site) -> bool:
    return isinstance(site.parent, ast.keyword) and site.parent.arg in ("axis", "keepdims", "axes")


#: The largest integer used as a replacement, since it may be a number of repetitions.
MOST_INTEGER = 64


def constants(site: Site, known: Known) -> Found:
    node = site.get()
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool | str | None) or _is_axis(site):
        return
    c = node.value
    if isinstance(c, int | float):
        if isinstance(c, int):
            constants: list[float] = [k for k in known.constants if isinstance(k, int) and abs(k) <= MOST_INTEGER]
        else:
            constants = list(known.constants)
        near = [k for k in known.constants if c and k != c and abs(k - c) <= 0.02 * abs(c)]
        others = [2 * c, 3 * c, c + 1, c - 1, -c, *([c / 2, 1 / c] if c else [])]
        for other in [*near, *constants, *others]:
            if other != c:
                yield "wrong factor" if _is_power(site) else "wrong constant", literal(other)


def accumulation(site: Site, known: Known) -> Found:
    node = site.get()
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and not isinstance(node.targets[0], ast.Tuple):
        is_once = isinstance(node.targets[0], ast.Name) and isinstance(site.parent, ast.FunctionDef)
        cause = "missing term" if is_once else "not accumulated"
        yield cause, ast.AugAssign(stored(node.targets[0]), ast.Add(), node.value)
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(node, ast.Assign | ast.AugAssign) and isinstance(target, ast.Subscript):
        add_at = parsed("__import__('numpy').add.at")
        where = [target.value, as_index(target.slice), node.value]
        yield "not accumulated", ast.Expr(ast.Call(add_at, [loaded(each) for each in where], []))
