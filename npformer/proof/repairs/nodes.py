"""Places in a syntax tree, their values in a run, and replacement nodes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from npformer.typing import Shape


class Site(NamedTuple):
    """A place in the tree: parent.field, or parent.field[at]."""

    parent: ast.AST
    field: str
    at: int | None

    def get(self) -> Any:
        """The node there."""
        value = getattr(self.parent, self.field)
        return value if self.at is None else value[self.at]

    def put(self, node: Any) -> None:
        """Put node there."""
        if self.at is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.at] = node


class Edit(NamedTuple):
    """One change, and the mistake that it undoes."""

    cause: str
    site: Site
    node: ast.AST


class Known(NamedTuple):
    """The values of one run: of each node by id, of names and expressions to build with, and forward's constants."""

    values: Mapping[int, Any]
    pool: Mapping[str, Any]  # source of an expression -> its value
    helpers: tuple[str, ...]  # functions of one argument that the forward calls, too
    constants: tuple[float, ...]

    def at(self, site: Site) -> tuple[Any, Any]:
        """(the node at a place, its value); None for an unknown value."""
        node = site.get()
        return node, self.values.get(id(node))


Found = Iterator[tuple[str, ast.AST]]


def sites(function: ast.AST) -> list[Site]:
    """All places of expressions and statements in the body of a function, or of a module."""
    found = []
    for parent in ast.walk(function):
        for field, value in ast.iter_fields(parent):
            if isinstance(parent, ast.FunctionDef | ast.arguments) and field != "body":
                continue
            if isinstance(value, ast.expr | ast.stmt):
                found.append(Site(parent, field, None))
            elif isinstance(value, list):
                found += [Site(parent, field, i) for i, x in enumerate(value) if isinstance(x, ast.expr | ast.stmt)]
    return found


def is_value(site: Site, known: Known) -> bool:
    """Whether the node is an array or a number for computation, not an axis, a shape or a name."""
    node = site.get()
    if not isinstance(node, ast.expr) or id(node) not in known.values or isinstance(node, ast.Constant | ast.Tuple):
        return False
    return not isinstance(site.parent, ast.keyword)


def is_operand(site: Site) -> bool:
    """Whether a value is computed with: in an expression, a call, a result, or before .sum() and .mean()."""
    if isinstance(site.parent, ast.Attribute):
        return site.parent.attr in ("sum", "mean")
    return isinstance(site.parent, ast.Assign | ast.AugAssign | ast.Return | ast.Tuple | ast.BinOp | ast.Call)


def is_real(value: Any) -> bool:
    """Whether these are numbers for computation: an integer may be a count, and a loop would never end."""
    return isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind in "fb")


def is_mask(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "b"


def kind_of(value: Any) -> str:
    """The kind of an array's numbers; that of floats for anything else."""
    return getattr(value, "dtype", np.dtype(float)).kind


def fits(shape: Shape, to: Shape) -> bool:
    """Whether it broadcasts to the other shape without making it larger."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def array_of(node: ast.Call) -> ast.expr | None:
    """What a method is called on, or else the first argument."""
    match node.func:
        case ast.Attribute(value) if not (isinstance(value, ast.Name) and value.id == "np"):
            return value
    return node.args[0] if node.args else None


def inputs_of(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]


def renamed(node: ast.Call, name: str) -> ast.Call:
    if isinstance(node.func, ast.Attribute):
        return ast.Call(ast.Attribute(node.func.value, name, ast.Load()), node.args, node.keywords)
    return ast.Call(ast.Name(name, ast.Load()), node.args, node.keywords)


def literal(value: Any) -> ast.expr:
    return parsed(repr(value))


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def method(node: ast.expr, name: str, *arguments: Any, **words: Any) -> ast.Call:
    """A call of a method, with literal arguments."""
    keywords = [ast.keyword(word, literal(value)) for word, value in words.items()]
    return ast.Call(ast.Attribute(node, name, ast.Load()), list(map(literal, arguments)), keywords)


def transposed(node: ast.expr) -> ast.expr:
    return method(node, "swapaxes", -1, -2)


def turned(node: ast.expr, axis: int, rank: int) -> ast.expr:
    parts: list[ast.expr] = [ast.Slice() for _ in range(rank)]
    parts[axis] = ast.Slice(step=literal(-1))
    return ast.Subscript(node, ast.Tuple(parts, ast.Load()), ast.Load())


def as_index(node: ast.expr) -> ast.expr:
    """The content of brackets as a value, in which slices are calls."""
    if isinstance(node, ast.Tuple):
        return ast.Tuple([as_index(part) for part in node.elts], ast.Load())
    if isinstance(node, ast.Slice):
        parts = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
        return ast.Call(ast.Name("slice", ast.Load()), parts, [])
    return node


def _with_context(node: Any, context: Callable[[], ast.expr_context]) -> Any:
    changed = copy.copy(node)
    if hasattr(changed, "ctx"):
        changed.ctx = context()
    return changed


def stored(node: ast.expr) -> Any:
    return _with_context(node, ast.Store)


def loaded(node: ast.expr) -> Any:
    return _with_context(node, ast.Load)
