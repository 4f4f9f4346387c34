"""Small changes of a function's syntax tree that would undo the mistakes people make in a backward pass.

Each replaces one node by another, and names the mistake that it undoes:

    sign             a → −a, a + b ↔ a − b, a − b → b − a        swapped outputs   return a, b → return b, a
    extra term       a + b → a                                   missing term      a → a + t, a − t
    extra factor     a·b → a, a/b → a                            missing factor    a → a·v, a/v, a @ v, v @ a
    wrong factor     v → w, 1 − v, a·b ↔ a/b, a/b → b/a          wrong constant    c → 2c, c ± 1, a number of forward
    transposed       a → aᵀ and back, a @ b → b @ a              reshaped          a → a with an axis turned round
    summed axis      another axis, sum ↔ mean, a sum more        wrong branch      a < b → a > b, where(c, a, b)
    wrong place      i → i ± 1, x[1:] → x[:-1], v[0] → v[:, None]  not accumulated x[i] = v → x[i] += v, add.at

t, v and w are names and expressions of the function itself, chosen by their shapes during a run, those first that it
computes and never uses. t may also be a product, or a mean or a sum over the last axis, as norms and softmax take them
off: a − mean(a) − b·mean(a·b). Cheap changes come first.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from npformer.check.causes.mutants import called, elements
from npformer.check.causes.nodes import (
    Found,
    Here,
    Known,
    Site,
    TreeEdit,
    fits,
    is_mask,
    is_named,
    is_real,
    kind_of,
    literal,
    parsed,
    renamed,
    rewritten,
    sites,
    transposed,
)
from npformer.typing import Shape

#: The most names of which projections are made.
MOST_NAMES = 5
_LAST = "axis=-1, keepdims=True"
_NP = "__import__('numpy')"
_SIGMOID = f"1 / (1 + {_NP}.exp(-{{0}}))"
#: Functions of an array that are common factors in derivatives.
_DERIVED = ("(1 - {0})", "(1 - {0} ** 2)", "({0} > 0)", "(1 + {0})", f"{_NP}.sign({{0}})", f"{_NP}.exp({{0}})",
            f"{_NP}.cos({{0}})", f"{_NP}.sin({{0}})", "({0} * (1 - {0}))", "({0} ** 2)", "({0} ** -2)",
            f"({_SIGMOID})")  # fmt: skip
_FUNCTIONS = ("{0} ** 2", "{0} ** 0.5", "{0} ** 3", "1 / {0}", "1 - {0}", f"{_NP}.sign({{0}})", "abs({0})",
              f"{_NP}.exp({{0}})", f"{_NP}.conj({{0}})", _SIGMOID)  # fmt: skip
_SHAPE_KEEPING = frozenset({"sqrt", "exp", "log", "tanh", "abs", "sign", "square", "tril", "triu", "resize"})
#: An axis by its name, in NumPy and PyTorch.
_AXIS = ("axis", "dim")
_TRANSPOSING = ("transpose", "swapaxes", "matrix_transpose", "moveaxis")
_OPPOSITES = {
    "maximum": "minimum", "minimum": "maximum", "argmax": "argmin", "argmin": "argmax", "tril": "triu", "triu": "tril",
    "sin": "cos", "cos": "sin", "floor": "ceil", "ceil": "floor", "max": "min", "min": "max",
}  # fmt: skip
_SIGNS = {
    "sign": ("-a → a", "a + b → a - b", "a - b → a + b", "a - b → b - a", "a += b → a -= b", "a -= b → a += b"),
}  # fmt: skip
_DROPS = {
    "extra term": ("a + b → a", "a + b → b", "a - b → a", "a - b → b"),
    "extra factor": ("a * b → a", "a * b → b", "a @ b → a", "a @ b → b", "a / b → a", "a // b → a", "a ** b → a"),
    "wrong factor": ("a * b → a / b", "a / b → a * b", "a / b → b / a"),
}
#: A number inside a function, or outside of it: sqrt(a) + eps → sqrt(a + eps).
_ASSOCIATIONS = {
    "wrong constant": [
        rule for op in "+-*/"
        for rule in (f"f(a, *r, **k) {op} b → f(a {op} b, *r, **k)", f"f(a {op} b, *r, **k) → f(a, *r, **k) {op} b")
    ]
}  # fmt: skip
_TRANSPOSITIONS = {
    "transposed": [
        "a.T → a", "a.mT → a",
        *("a @ b → " + product.replace("'", ".swapaxes(-1, -2)")
          for product in ("b @ a", "a' @ b", "a @ b'", "a' @ b'", "b' @ a", "b @ a'", "b' @ a'")),
    ]
}  # fmt: skip
_BRANCHES = {
    "extra factor": ("where(c, a, b) → a", "where(c, a, b) → b"),
    "wrong branch": ("where(c, a, b) → where(c, b, a)", "where(c, a, b) → where(c, a, -b)",
                     "where(c, a, b) → where(c, a, 0)", "~a → a", "not a → a"),
}  # fmt: skip
_CUTTING = ("stop_gradient", "float", "tensor", "as_tensor", "from_numpy", "array", "asarray")
_CUTS = {
    "cut graph": [
        *(f"a.{part} → a" for part in ("detach()", "item()", "tolist()", "numpy()", "data")),
        *(f"{name}(a, *r, **k) → a" for name in _CUTTING), *(f"m.{name}(a, *r, **k) → m.stack(a)" for name in _CUTTING),
    ]
}  # fmt: skip
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


def factors(here: Here) -> Found:
    """A number or an array of the pool, multiplied, divided or matrix-multiplied."""
    for text, v in here.others() if here.is_operand else ():
        for spelled, op in itertools.product(_broadcast(text, np.shape(v), here.shape), "*/"):
            yield "missing factor" if np.ndim(v) else "factor", f"({here.text}) {op} {spelled}"
        if len(here.shape) >= 2 and np.ndim(v) == 2:
            for array in (f"({text})", f"({text}).swapaxes(-1, -2)"):
                yield "missing factor", f"({here.text}) @ {array}"
                yield "missing factor", f"{array} @ ({here.text})"
    rests = [f"{op} (1 - {number})" for number in here.numbers() for op in "*/"]  # of a rate
    own = [f"{op} {number!r}" for number in here.known.constants if number not in (0, 1, 2, 3) for op in "*/"]
    for scaled in ("* 2", "* 0.5", "* 3", *own, *rests) if here.is_operand else ():
        yield "factor", f"({here.text}) {scaled}"


def derived_factors(here: Here) -> Found:
    """A function of an array of the pool, multiplied."""
    for name in here.arrays() if here.is_operand else ():
        for spelled in _broadcast(name, np.shape(here.known.pool[name]), here.shape):
            for derived in _DERIVED:
                yield "missing factor", f"({here.text}) * {derived.format(spelled)}"


def _broadcast(text: str, shape: Shape, to: Shape) -> list[str]:
    """The array in forms that broadcast with the other shape: unchanged, or with axes appended."""
    with contextlib.suppress(ValueError):
        np.broadcast_shapes(shape, to)
        return [f"({text})"]
    starts = [i for i in range(len(to) - len(shape) + 1) if shape and to[i : i + len(shape)] == shape]
    return [f"({text})[..., {', '.join(['None'] * (len(to) - len(shape) - i))}]" for i in starts]


def functions(here: Here) -> Found:
    """A function applied to an existing value."""
    for derived in _FUNCTIONS:
        yield "wrong factor", derived.format(f"({here.text})")


def _added(here: Here, terms: Iterable[tuple[str, Shape]]) -> Found:
    for text, shape in terms:
        for op in "+-" if fits(shape, here.shape) else "":
            yield "missing term", f"({here.text}) {op} {text}"


def names_added(here: Here) -> Found:
    if here.takes_terms:
        yield from _added(here, ((n, here.shape) for n in here.arrays() if np.shape(here.known.pool[n]) == here.shape))


def terms(here: Here) -> Found:
    """An expression or a small number, such as an ε of the forward."""
    if here.is_operand:
        small = [repr(number) for number in here.known.constants if 0 < abs(number) < 1e-2]
        fitting = [(f"({text})", np.shape(v)) for text, v in here.others()]
        yield from _added(here, [*fitting, *((number, ()) for number in (*small, "1", "1.0"))])


def products(here: Here) -> Found:
    if here.takes_terms:
        yield from _added(here, here.known.products)


def unused_names(here: Here) -> Found:
    """A name that is not used yet, times a number of the pool, times 1, 2 or 1/2; a number as a factor."""
    numbers = [name for name in here.numbers() if name in here.known.unused] if here.is_operand else []
    yield from (("factor", f"({here.text}) {op} {number}") for number in numbers for op in "*/")
    yield from _with_numbers(
        here, [(n, np.shape(here.known.pool[n])) for n in here.known.unused if n in here.known.pool]
    )


def unused_in_products(here: Here) -> Found:
    """The same of its product with another name."""
    yield from _with_numbers(
        here, [product for product in here.known.products if any(n in product[0] for n in here.known.unused)]
    )


def _with_numbers(here: Here, terms: list[tuple[str, Shape]]) -> Found:
    terms = [term for term in terms if term[1] or here.known.with_kernels]  # a kernel's row sums are numbers
    is_place = here.takes_terms or (here.is_read and here.is_operand)
    kinds = itertools.product(terms, ("1", *here.numbers()), ("1", "2", "0.5")) if is_place else ()
    for (text, shape), *numbers in kinds:
        yield from _added(here, [(" * ".join([*(n for n in numbers[::-1] if n != "1"), text]), shape)])


def projections(here: Here) -> Found:
    """What a norm or a softmax takes off: a mean or a sum over the last axis of a name or of a product of two.

    With a name as a factor, too, and both terms of a norm: a − mean(a), a − sum(a·b), a − b·mean(a·b),
    a − mean(a) − b·mean(a·b).
    """
    text, is_place = here.text, here.takes_terms or isinstance(here.node, ast.Name)
    if not is_place or not here.shape or here.shape[-1] < 2:
        return
    alike = [name for name, v in here.known.pool.items() if np.shape(v) == here.shape and not is_mask(v)]
    names = [name for name in alike if is_named(name)][:MOST_NAMES]
    for name in names if text in names else ():
        yield "missing term", f"{text} - {text}.mean({_LAST}) - {name} * ({text} * {name}).mean({_LAST})"
    inner = [*names, *(f"({a} * {b})" for a, b in itertools.combinations_with_replacement(names, 2))]
    for part, mean in itertools.product(inner, ("mean", "sum")):
        taken = f"{part}.{mean}({_LAST})"
        factors = ["", *(f"{name} * " for name in names if name in part.strip("()").split(" * "))]
        yield from _added(here, [(f"{factor}{taken}", here.shape) for factor in factors])


def names(here: Here) -> Found:
    """Another array in the place of one, what it lacks to 1, or 1; a number of the forward in the place of a number."""
    if here.is_read and not here.shape:
        yield from (("wrong constant", repr(number)) for number in here.known.constants if not here.is_twin(number))
    if here.is_read:
        named = [(text, np.shape(v)) for text, v in here.others() if is_named(text) and not here.is_twin(v)]
        same = [text for text, shape in named if shape == here.shape]
        more = [text for text, shape in named if shape != here.shape and len(shape) == len(here.shape)]
        yield from (("wrong factor", text) for text in (*same, f"1 - {here.text}", "1", *more))


def sums(here: Here) -> Found:
    axes = [*range(len(here.shape)), *itertools.combinations(range(len(here.shape)), 2)]
    for axis, name in itertools.product(axes, ("sum", "mean")):
        yield "summed axis", f"({here.text}).{name}(axis={axis}, keepdims=True)"


#: Takes a place, and gives pairs (mistake, what should stand there instead).
Change = Callable[[Here], Found]
Edits = Callable[[ast.FunctionDef, Known], Iterator[TreeEdit]]


def _of_changes(*kinds: Change) -> Edits:
    """Changes of any place, of kernels where it matters."""
    return lambda function, known: _made(_places(function, known), kinds)


def _of_additions(*kinds: Change) -> Edits:
    """Changes of places with real numbers on which a wrong tensor depends."""
    return lambda function, known: _made(_values(function, known), kinds)


def _made(places: Sequence[Here], kinds: Sequence[Change]) -> Iterator[TreeEdit]:
    for kind, here in itertools.product(kinds, places):
        for cause, node in kind(here):
            yield TreeEdit(cause, here.site, node)
            if isinstance(here.node, ast.Constant) and (also := here.known.twins(here.site)):
                yield TreeEdit(cause, here.site, node, also)  # the constant wherever it stands


#: Of what a function computes and never uses.
UNUSED = _of_additions(unused_names, unused_in_products)
#: Other names, or these added, which is cheap.
EXCHANGED = _of_additions(names, names_added)
#: The simple changes, tried in every function of the user's; the last add a value of the function. Of one kind, those
#: where a value is made come before its return.
SIMPLE = (
    _of_changes(copies, outputs, flips, negations, drops, accumulation, helpers, moved_out),
    _of_additions(unused_names), EXCHANGED,
    _of_changes(associations, axes, places, shifts, ones, transposes, branches, turns, constants),
    _of_additions(functions, factors, products, terms),
)  # fmt: skip
#: Tried after them: inventions, which build new expressions.
INVENTED = _of_additions(unused_in_products, projections, derived_factors, sums)
#: Of what a library differentiates.
CUTS = _of_changes(cuts)
#: The same for kernels and what launches them: most of their places are addresses, so what changes numbers is first.
WITH_KERNELS = (
    UNUSED, _of_changes(outputs, flips, drops, accumulation, axes, branches, negations), EXCHANGED,
    _of_additions(factors, products), _of_additions(projections, functions, derived_factors, terms, sums),
    _of_changes(constants, ones, transposes, turns, places),
)  # fmt: skip


def bound(function: ast.FunctionDef, known: Known) -> Iterator[TreeEdit]:
    """A variable of a loop around a closure, kept as it is when that is made: lambda dy: … → lambda dy, W=W: …"""
    for node in ast.walk(function):
        if not isinstance(node, ast.Lambda | ast.FunctionDef) or node is function:
            continue
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        own = {a.arg for a in node.args.args} | {n.id for n in names if isinstance(n.ctx, ast.Store)}
        free = sorted({n.id for n in names} - own)
        for kept in [*([name] for name in free), *([free] if free else [])]:
            more = parsed(f"lambda {', '.join(f'{name}={name}' for name in kept)}: 0")
            changed = copy.deepcopy(node.args)
            changed.args += more.args.args
            changed.defaults += more.args.defaults
            yield TreeEdit("late binding", Site(node, "args", None), changed)


def _places(function: ast.FunctionDef, known: Known) -> list[Here]:
    """All places, names that are returned as they are last: their mistake is mostly where they were made."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    returned = {id(part) for value in values for part in elements(value) if isinstance(part, ast.Name)}
    places = [Here(site, known) for site in sites(function)]
    if known.with_kernels:
        places = [here for here in places if _is_number(here) and here.site not in known.idle]
    return sorted(places, key=lambda here: id(here.node) in returned)


def _values(function: ast.FunctionDef, known: Known) -> list[Here]:
    places = [here for here in _places(function, known) if here.is_value and here.site not in known.idle]
    places = [here for here in places if is_real(here.value) and not is_mask(here.value)]
    if known.with_kernels:  # what a kernel's sums lack could be added before and after them: where they are used
        places.sort(key=lambda here: (_is_stored(here.site), -getattr(here.node, "lineno", 0)))
    return places


def _is_stored(site: Site) -> bool:
    """Whether it is a name that a kernel stores: its mistake is mostly where it was made."""
    return isinstance(site.get(), ast.Name) and isinstance(site.parent, ast.Call) and called(site.parent) == "store"


def _is_number(here: Here) -> bool:
    """Whether what is here is no address, and part of none: a number, a statement, or without a value of its own."""
    is_other = isinstance(here.node, ast.stmt | ast.Constant | ast.keyword) or id(here.node) not in here.known.values
    return is_other or is_real(here.value)
