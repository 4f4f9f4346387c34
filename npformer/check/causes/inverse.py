"""Changes of existing code: signs, terms, axes, transpositions, choices, indices, constants, what is kept alone."""

from __future__ import annotations

import ast
import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npformer.check.causes.mutants import called
from npformer.check.causes.nodes import (
    Found,
    Here,
    Site,
    is_mask,
    is_real,
    kind_of,
    literal,
    parsed,
    renamed,
    rewritten,
    transposed,
)

_NP = "__import__('numpy')"
_SHAPE_KEEPING = frozenset({"sqrt", "exp", "log", "tanh", "abs", "sign", "square", "tril", "triu", "resize"})
#: An axis by its name, in NumPy and PyTorch.
_AXIS = ("axis", "dim")
_TRANSPOSING = ("transpose", "swapaxes", "matrix_transpose", "moveaxis")
_OPPOSITES = {
    "maximum": "minimum", "minimum": "maximum", "argmax": "argmin", "argmin": "argmax", "tril": "triu", "triu": "tril",
    "sin": "cos", "cos": "sin", "floor": "ceil", "ceil": "floor", "max": "min", "min": "max",
}  # fmt: skip
_SIGNS = [
    ("sign", rule)
    for rule in ("-a → a", "a + b → a - b", "a - b → a + b", "a - b → b - a", "a += b → a -= b", "a -= b → a += b")
]
_DROPS = (
    ("extra term", "a + b → a"), ("extra term", "a + b → b"), ("extra term", "a - b → a"), ("extra term", "a - b → b"),
    ("extra factor", "a * b → a"), ("extra factor", "a * b → b"), ("wrong factor", "a * b → a / b"),
    ("extra factor", "a @ b → a"), ("extra factor", "a @ b → b"),
    ("extra factor", "a / b → a"), ("wrong factor", "a / b → a * b"), ("wrong factor", "a / b → b / a"),
    ("extra factor", "a // b → a"), ("extra factor", "a ** b → a"),
)  # fmt: skip
_ASSOCIATIONS = [
    ("wrong constant", rule)
    for op in "+-*/"
    for rule in (f"f(a, *r, **k) {op} b → f(a {op} b, *r, **k)", f"f(a {op} b, *r, **k) → f(a, *r, **k) {op} b")
]
_TRANSPOSITIONS = [("transposed", "a.T → a"), ("transposed", "a.mT → a")] + [
    ("transposed", "a @ b → " + product.replace("a'", "a.swapaxes(-1, -2)").replace("b'", "b.swapaxes(-1, -2)"))
    for product in ("b @ a", "a' @ b", "a @ b'", "a' @ b'", "b' @ a", "b @ a'", "b' @ a'")
]
_BRANCHES = (
    ("extra factor", "where(c, a, b) → a"), ("extra factor", "where(c, a, b) → b"),
    ("wrong branch", "where(c, a, b) → where(c, b, a)"), ("wrong branch", "where(c, a, b) → where(c, a, -b)"),
    ("wrong branch", "where(c, a, b) → where(c, a, 0)"), ("wrong branch", "~a → a"), ("wrong branch", "not a → a"),
)  # fmt: skip
_CUTTING = ("stop_gradient", "float", "tensor", "as_tensor", "from_numpy", "array", "asarray")
_CUTS = [
    *(("cut graph", f"a.{part} → a") for part in ("detach()", "item()", "tolist()", "numpy()", "data")),
    *(("cut graph", f"{name}(a, *r, **k) → a") for name in _CUTTING),
    *(("cut graph", f"m.{name}(a, *r, **k) → m.stack(a)") for name in _CUTTING),
]
#: Constants of the field, for a number that is nearly one of them.
_MENU = (math.sqrt(2 / math.pi), math.sqrt(2 * math.pi), 1 / math.sqrt(2 * math.pi), math.sqrt(0.5), math.pi,
         2 / math.sqrt(math.pi), 1 / math.sqrt(math.pi), 0.044715, 3 * 0.044715)  # fmt: skip
#: The largest integer used as a replacement, since it may be a length, or a number of repetitions.
MOST_INTEGER = 64


def accumulation(here: Here) -> Found:
    """A contribution that was kept alone is added to the others."""
    match here.node:
        case ast.Assign([target], value):
            if not isinstance(target, ast.Tuple):
                is_once = isinstance(target, ast.Name) and isinstance(here.site.parent, ast.FunctionDef)
                added = ast.AugAssign(target, ast.Add(), value)  # type: ignore[arg-type]
                yield "missing term" if is_once else "not accumulated", added
        case ast.AugAssign(target, _, value):
            pass
        case ast.Expr(ast.Call() as store) if called(store) == "store":  # in a kernel
            yield "not accumulated", ast.Expr(renamed(store, "atomic_add"))
            return
        case _:
            return
    if isinstance(target, ast.Subscript):
        has_slices = any(isinstance(part, ast.Slice) for part in ast.walk(target.slice))
        where = ast.Subscript(parsed(f"{_NP}.s_"), target.slice, ast.Load()) if has_slices else target.slice
        call = f"{_NP}.add.at({ast.unparse(target.value)}, {ast.unparse(where)}, {ast.unparse(value)})"
        yield "not accumulated", ast.parse(call).body[0]


def outputs(here: Here) -> Found:
    match here.node:
        case ast.Return(ast.Tuple(parts)):
            yield from (("swapped outputs", ast.Return(ast.Tuple(order, ast.Load()))) for order in _exchanges(parts))
        case ast.Assign([ast.Tuple(parts)], value):
            for order in _exchanges(parts):
                yield "swapped outputs", ast.Assign([ast.Tuple(order, ast.Store())], value)
        case ast.List(parts, ast.Load()):
            yield from (("swapped outputs", ast.List(order, ast.Load())) for order in _exchanges(parts))


def _exchanges(parts: Sequence[Any]) -> Iterator[list[Any]]:
    """The parts, with two of them exchanged."""
    for i, j in itertools.combinations(range(len(parts)), 2):
        changed = list(parts)
        changed[i], changed[j] = parts[j], parts[i]
        yield changed


def flips(here: Here) -> Found:
    if not isinstance(getattr(here.node, "operand", None), ast.Constant):
        yield from rewritten(here.node, _SIGNS)


def negations(here: Here) -> Found:
    if here.is_value and here.is_operand and np.any(here.value) and not here.text.startswith("-"):
        yield "sign", ast.UnaryOp(ast.USub(), here.node)


def drops(here: Here) -> Found:
    for cause, part in rewritten(here.node, _DROPS):
        dropped = [here.known.values.get(id(node)) for node in ast.iter_child_nodes(here.node) if node is not part]
        if cause == "extra term" and here.value is not None and not is_real(here.value):
            cause = _of_whole(here)
        yield "wrong place" if cause == "extra factor" and any(map(is_mask, dropped)) else cause, part
    match here.node:
        case ast.AugAssign() if isinstance(here.site.at, int):
            yield "extra term", ast.Pass()
        case ast.Call(args=[inner, *_]) if called(here.node) in _SHAPE_KEEPING:
            yield "extra factor", inner


def shifts(here: Here) -> Found:
    """What is handed to the neighbour on the other side: x[1:] += y[:-1] → x[:-1] += y[1:]."""
    turned = copy.deepcopy(here.node) if isinstance(here.node, ast.Assign | ast.AugAssign) else ast.Pass()
    slices = [node for node in ast.walk(turned) if isinstance(node, ast.Slice) and bool(node.lower) != bool(node.upper)]
    for node in slices:
        node.lower, node.upper = _opposite(node.upper), _opposite(node.lower)
    if len(slices) > 1:
        yield "wrong place", turned


def _opposite(bound: Any) -> Any:
    """1 → -1, and back."""
    return bound.operand if isinstance(bound, ast.UnaryOp) else bound and ast.UnaryOp(ast.USub(), bound)


def moved_out(here: Here) -> Found:
    """A return that stands in a loop: after the loop."""
    match here.node:
        case ast.For(target, places, [*body, ast.Return() as last], rest) as loop if body:
            inner = ast.For(target, places, body, rest, lineno=loop.lineno)
            yield "wrong place", ast.If(literal(True), [inner, last], [])


def associations(here: Here) -> Found:
    """A number inside a function, or outside of it: sqrt(a) + eps → sqrt(a + eps)."""
    yield from rewritten(here.node, _ASSOCIATIONS)


def copies(here: Here) -> Found:
    """New memory in the place of what is shared, with what the cache holds or with the upstream gradient."""
    match here.node:
        case ast.AugAssign(ast.Name(name) as target, op, value):
            yield SHARED, ast.Assign([target], ast.BinOp(ast.Name(name, ast.Load()), op, value))


SHARED = "shared memory"


def helpers(here: Here) -> Found:
    """Another function of the user's, or the same one with its flag turned: sig(y) → sig(y, True)."""
    if isinstance(here.node, ast.Call):
        yield from (("wrong function", text) for text in here.known.twins_of_calls.get(here.text, ()))


def axes(here: Here) -> Found:
    node = here.node
    if not isinstance(node, ast.Call):
        return
    is_sum, array = called(node) in ("sum", "mean"), here.array
    if is_sum:
        yield "summed axis", renamed(node, "mean" if called(node) == "sum" else "sum")
    inputs = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    rank = max(np.ndim(v) for v in (here.value, *(here.known.values.get(id(operand)) for operand in inputs)))
    others, kept = [word for word in node.keywords if word.arg not in _AXIS], ast.keyword("keepdims", literal(True))
    orders: list[Any] = [*range(rank)] if is_sum else []
    if len(others) < len(node.keywords):
        orders = [axis for n in (2, 3) for axis in itertools.combinations(range(rank), n)]
        orders = [None, *range(rank), *orders]
    given = [*node.args[: int(array in node.args)]] if is_sum else node.args  # without an axis by its place
    for axis, more in itertools.product(orders, ([], [kept]) if is_sum and not others else ([],)):
        yield "summed axis", ast.Call(node.func, given, [ast.keyword("axis", literal(axis)), *others, *more])


def ones(here: Here) -> Found:
    """An axis of length 1 in another place, or a new one: v[None, :] → v[:, None], v[0] → v[:, None]."""
    node = here.node
    is_part = isinstance(node, ast.Name | ast.Attribute | ast.BinOp | ast.Call)
    base: Any = node if is_part and here.is_operand else None
    match node:
        case ast.Subscript(inner, index, ctx):
            base = inner
            for changed in _exchanges(index.elts) if isinstance(index, ast.Tuple) else ():
                yield "transposed", ast.Subscript(base, ast.Tuple(changed, ast.Load()), ctx)
        case ast.Call() if called(node) in ("sum", "mean", "max", "min"):
            base = here.array
    rank = np.ndim(here.known.values.get(id(base), 0))
    for at in range(rank + 1) if 0 < rank < 3 else ():
        axes = ", ".join([":"] * at + ["None"] + [":"] * (rank - at))
        yield "wrong place", f"({ast.unparse(base)})[{axes}]"


def transposes(here: Here) -> Found:
    node, value, parent, pool = here.node, here.value, here.site.parent, here.known.pool
    cause = "reshaped" if getattr(parent, "attr", "") == "reshape" else "transposed"
    yield from rewritten(node, _TRANSPOSITIONS)
    match node:
        case ast.Call() if called(node) in _TRANSPOSING and (array := here.array):
            yield "transposed", array
        case ast.Call(func, args, keywords) if called(node) == "reshape":
            yield from (("reshaped", ast.Call(func, order, keywords)) for order in _exchanges(args))
    if here.is_value and getattr(parent, "attr", "") not in ("shape", "size", "dtype"):
        for i, j in itertools.combinations(range(np.ndim(value)), 2):
            yield cause, f"({here.text}).swapaxes({i}, {j})"
    if isinstance(node, ast.stmt) and isinstance(parent, ast.FunctionDef):
        for name in sorted({n.id for n in ast.walk(parent) if isinstance(n, ast.Name)}):
            if np.ndim(pool.get(name, 0)) == 2:  # wherever it is used
                turned = ast.Assign([ast.Name(name, ast.Store())], transposed(parsed(name)))
                both = [turned, node] if isinstance(node, ast.Return) else [node, turned]
                yield "transposed", ast.If(ast.Constant(True), both, [])


def turns(here: Here) -> Found:
    """An axis reversed, or no longer reversed."""
    node, value = here.node, here.value
    yield from [("reshaped", node.value)] if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) else []
    if isinstance(here.site.parent, ast.For) and here.site.field == "iter":
        yield "reshaped", f"list({here.text})[::-1]"
    for axis in range(np.ndim(value)) if here.is_value and np.size(value) > 1 else ():
        turned = f"[{', '.join([':'] * axis + ['::-1'] + [':'] * (np.ndim(value) - axis - 1))}]"
        yield "reshaped", f"({here.text}){turned}"
        if isinstance(node, ast.Call) and called(node) in ("cumsum", "cumprod", "accumulate") and node.args:
            inner = parsed(f"({ast.unparse(node.args[0])}){turned}")
            yield "reshaped", f"{ast.unparse(ast.Call(node.func, [inner, *node.args[1:]], node.keywords))}{turned}"


def branches(here: Here) -> Found:
    node, value, text = here.node, here.value, here.text
    yield from rewritten(node, _BRANCHES)
    match node:
        case ast.Compare(left, [old], right):
            ops = [op() for op in (ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Eq, ast.NotEq) if not isinstance(old, op)]
            yield from (("wrong branch", ast.Compare(left, [op], right)) for op in ops)
        case ast.Constant(bool(flag)) if isinstance(here.site.parent, ast.Call):
            yield "wrong branch", literal(not flag)
    if here.is_value and is_mask(value) and not isinstance(node, ast.UnaryOp):
        yield "wrong branch", f"~({text})"
        for name, other in here.known.pool.items():
            if is_mask(other) and np.shape(other) == np.shape(value):
                yield "wrong branch", f"({text}) & ({name})"
            for op in ("<=", ">=") if isinstance(node, ast.Compare) and not is_mask(other) else ():
                yield "wrong branch", f"({text}) & ({ast.unparse(node.left)} {op} {name})"
    if isinstance(node, ast.Call) and called(node) in _OPPOSITES:
        yield "wrong branch", renamed(node, _OPPOSITES[called(node)])


def places(here: Here) -> Found:
    site, node, value = here.site, here.node, here.value
    if isinstance(node, ast.Slice):
        lower, upper, step = node.lower, node.upper, node.step
        bounds: list[Any] = [(_moved(lower, by), upper) for by in (1, -1) if lower]
        bounds += [(lower, _moved(upper, by)) for by in (1, -1) if upper]
        bounds += [(_opposite(upper), _opposite(lower))] if bool(lower) != bool(upper) else []
        yield from (("wrong place", ast.Slice(low, high, step)) for low, high in bounds)
    is_index = isinstance(value, int | np.integer) or kind_of(value) in "iu"
    if is_index and not isinstance(value, bool) and isinstance(node, ast.expr) and not _is_axis(site):
        cause = _of_whole(here)
        yield from ((cause, _moved(node, by)) for by in (1, -1))
        most = np.inf if _is_right_of(site, ast.Div) else max(MOST_INTEGER, np.max(value))
        for text, other in here.known.pool.items():
            if isinstance(value, int) and type(other) is int and other > 1 and site.field == "value":
                yield "wrong place", f"({here.text}) * {text}"
            is_alike = isinstance(other, int) and other <= most if isinstance(value, int) else kind_of(other) in "iu"
            if is_alike and np.shape(other) == np.shape(value) and np.any(other != value):
                yield cause, text


def _of_whole(here: Here) -> str:
    """What a wrong whole number is: an exponent, a place or a constant."""
    site, inside = here.site, ast.Slice | ast.Call | ast.Tuple | ast.Assign | ast.Compare
    is_inside = isinstance(site.parent, inside) or isinstance(getattr(site.parent, "op", 0), ast.FloorDiv | ast.Mod)
    if _is_right_of(site, ast.Pow):
        return "wrong factor"
    return "wrong place" if is_inside or site.field == "slice" else "wrong constant"


def _moved(node: Any, by: int) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return literal(node.value + by)
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), literal(abs(by)))


def _is_right_of(site: Site, op: type[ast.operator]) -> bool:
    return isinstance(site.parent, ast.BinOp) and isinstance(site.parent.op, op) and site.field == "right"


def _is_axis(site: Site) -> bool:
    return isinstance(site.parent, ast.keyword) and site.parent.arg in ("axis", "axes", "dim", "keepdim", "keepdims")


def constants(here: Here) -> Found:
    site, known = here.site, here.known
    match here.node:
        case ast.Constant(int() | float() as c) if not isinstance(c, bool) and not _is_axis(site):
            is_any, cause = isinstance(c, float), "wrong factor" if _is_right_of(site, ast.Pow) else "wrong constant"
            numbers = (*known.constants, *(3 * k for k in known.constants))
            known_numbers = [k for k in numbers if is_any or (isinstance(k, int) and abs(k) <= MOST_INTEGER)]
            digits = [*(round(c, n) for n in range(8)), *(round(c * n, 0) / n for n in range(2, 13))]
            near = [k for k in (*numbers, *_MENU, *digits) if c and abs(k - c) <= 0.02 * abs(c)]
            is_factor = isinstance(site.parent, ast.BinOp) and isinstance(site.parent.op, ast.Mult | ast.Div)
            known_numbers += _MENU if is_any and is_factor else ()
            others = [*near, *known_numbers, 2 * c, 3 * c, c + 1, c - 1, -c, *([c / 2, 1 / c] if c else [])]
            yield from ((cause, repr(other)) for other in others if other != c)
            for text, v in known.pool.items():
                if not np.ndim(v) and isinstance(site.parent, ast.BinOp):
                    yield "wrong constant", text


def cuts(here: Here) -> Found:
    """What a library's derivative does not pass through, without its cut: the value stays the same."""
    yield from rewritten(here.node, _CUTS)
    match here.node:
        case ast.With([ast.withitem(ast.Call() as call)], body) if called(call) in ("no_grad", "inference_mode"):
            yield "cut graph", ast.If(literal(True), body, [])


#: In the order in which they are tried; before and after other names.
FIRST = (copies, outputs, flips, negations, drops, accumulation, helpers, moved_out)
CHANGES = (associations, axes, places, shifts, ones, transposes, branches, turns, constants)
#: The same for kernels, most of whose places are addresses: those that change numbers, and the rest.
FIRST_IN_KERNELS = (outputs, flips, drops, accumulation, axes, branches, negations)
REST_IN_KERNELS = (constants, ones, transposes, turns, places)
