"""Places in a syntax tree, their values in a run, and replacement nodes."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import max_abs
from npformer.typing import Named, Shape, Values

#: Relative: numbers this near are the same but for digits.
TWIN = 1e-5


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


class TreeEdit(NamedTuple):
    """One change, and the mistake that it undoes."""

    cause: str
    site: Site
    node: ast.AST | str  # or the source of an expression
    also: tuple[Site, ...] = ()  # other places for the same node

    @property
    def placed(self) -> Any:
        """The node at its place in the file."""
        return located(self.node, self.site.get())


@dataclass(frozen=True)
class Known:
    """The values of one run: of each node by id, of names and expressions to build with, and forward's constants."""

    values: Mapping[int, Any]
    pool: Named  # source of an expression -> its value
    constants: tuple[float, ...]  # numbers of the forward
    twins_of_calls: Mapping[str, tuple[str, ...]]  # source of a call of a function of the user's -> other calls
    unused: tuple[str, ...]  # names
    idle: Container[Site]  # places on which no wrong tensor depends, or a right one as well
    sites: Sequence[Site]
    with_kernels: bool = False  # a run is slow, and most expressions are addresses: only what matters is changed

    def twins(self, site: Site) -> tuple[Site, ...]:
        """The other places with the same source."""
        text = ast.dump(site.get())
        return tuple(other for other in self.sites if other != site and ast.dump(other.get()) == text)

    @cached_property
    def products(self) -> list[tuple[str, Shape]]:
        """Products of two names, with their shapes: element by element, of rows or columns, of matrices, outer ones."""
        products = []
        arrays = [(text, v) for text, v in self.pool.items() if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        names = [(text, v.shape) for text, v in arrays if is_part(text, self.pool)]
        pairs = sorted(itertools.product(enumerate(names), repeat=2), key=lambda pair: min(pair[0][0], pair[1][0]))
        for (_, (a, m)), (_, (b, n)) in pairs:
            if a <= b and (fits(m, n) or fits(n, m)):
                products.append((f"{a} * {b}", n if fits(m, n) else m))
            if m == n[:-1]:
                products.append((f"{a}[..., None] * {b}", n))
            for (left, x), (right, y) in itertools.product(
                ((a, m), (f"{a}.T", m[::-1])), ((b, n), (f"{b}.T", n[::-1]))
            ):
                if len(x) == len(y) == 2 and x[1] == y[0]:
                    products.append((f"{left} @ {right}", (x[0], y[1])))
            if len(m) == len(n) == 1:
                products.append((f"{a}[:, None] * {b}", m + n))
        return products


@dataclass(frozen=True)
class Here:
    """A place, and what there is to build with."""

    site: Site
    known: Known

    @cached_property
    def node(self) -> Any:
        return self.site.get()

    @property
    def value(self) -> Any:
        """None if it is unknown."""
        return self.known.values.get(id(self.node))

    @cached_property
    def text(self) -> str:
        return ast.unparse(self.node)

    @property
    def shape(self) -> Shape:
        return np.shape(self.value)

    @property
    def is_value(self) -> bool:
        """Whether the node is an array or a number for computation, not an axis, a shape or a name."""
        node, is_known = self.node, id(self.node) in self.known.values
        is_computed = isinstance(node, ast.expr) and not isinstance(node, ast.Constant | ast.Tuple)
        return is_known and is_computed and not isinstance(self.site.parent, ast.keyword)

    @property
    def is_operand(self) -> bool:
        """Whether a value is computed with: in an expression, a call, a result, or before .sum(), .T and their like."""
        parent = self.site.parent
        if isinstance(parent, ast.Attribute):
            return parent.attr in ("sum", "mean", "T", "mT", "swapaxes", "transpose", "reshape")
        return isinstance(parent, ast.Assign | ast.AugAssign | ast.Return | ast.Tuple | ast.BinOp | ast.Call)

    @property
    def is_read(self) -> bool:
        """Whether it is a name, or a part of one."""
        return isinstance(self.node, ast.Name | ast.Subscript | ast.Attribute)

    @property
    def takes_terms(self) -> bool:
        """Whether it is a sum's first part, or an assigned or returned value: one place of several alike."""
        parent = self.site.parent
        is_in_sum = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub)
        is_whole = isinstance(parent, ast.Assign | ast.AugAssign | ast.Return | ast.Tuple)
        return (is_in_sum and self.site.field == "left") or is_whole

    def is_twin(self, value: Any) -> bool:
        """Whether it is the same but for digits: then the mistake is where one was made, and not in its use."""
        return np.shape(value) == self.shape and 0 < max_abs(value - self.value) <= TWIN * max_abs(self.value)

    def others(self) -> Iterator[tuple[str, Any]]:
        """The other values, by their source."""
        return ((text, v) for text, v in self.known.pool.items() if text != self.text)

    def arrays(self) -> list[str]:
        """Names of arrays of numbers."""
        pool = self.known.pool
        return [text for text, v in self.others() if np.ndim(v) and is_part(text, pool) and not is_mask(v)]

    def numbers(self) -> list[str]:
        return [text for text, v in self.others() if is_named(text) and not np.ndim(v) and ".size" not in text]

    @property
    def array(self) -> ast.expr | None:
        """What a method is called on, or else the first argument."""
        match self.node.func:
            case ast.Attribute(value) if not (isinstance(value, ast.Name) and id(value) not in self.known.values):
                return value  # a module has no value
        return self.node.args[0] if self.node.args else None


Found = Iterator[tuple[str, ast.AST | str]]


def sites(function: ast.AST) -> list[Site]:
    """All places of expressions and statements in the body of a function, or of a module."""
    places = []
    for parent in ast.walk(function):
        for field, value in ast.iter_fields(parent):
            if isinstance(parent, ast.FunctionDef | ast.arguments) and field != "body":
                continue
            if isinstance(value, ast.expr | ast.stmt):
                places.append(Site(parent, field, None))
            elif isinstance(value, list):
                places += [Site(parent, field, i) for i, x in enumerate(value) if isinstance(x, ast.expr | ast.stmt)]
    return places


def is_real(value: Any) -> bool:
    """Whether these are numbers for computation: an integer may be a count, and a loop would never end."""
    return isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind in "fb")


def is_mask(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "b"


def kind_of(value: Any) -> str:
    """The kind of an array's numbers; that of floats for anything else."""
    return getattr(value, "dtype", np.dtype(float)).kind


def is_named(text: str) -> bool:
    """x, x.T or self.x"""
    return all(part.isidentifier() for part in text.split("."))


def is_part(text: str, pool: Container[str]) -> bool:
    """x, or a part of what is no array: ``self.x``, ``cache[0]``, ``cache["x"]``; not ``x.T``, ``x[0]``."""
    root = re.match(r"\w+", text)
    is_whole = re.fullmatch(r"\w+((\.\w+)|(\[('\w+'|\d+)\]))?", text) is not None
    return is_whole and root is not None and (root.group() == text or root.group() not in pool)


def fits(shape: Shape, to: Shape) -> bool:
    """Whether it broadcasts to the other shape without making it larger."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape[::-1], to[::-1], strict=False))


def renamed(node: ast.Call, name: str) -> ast.Call:
    func = ast.Attribute(node.func.value, name, ast.Load()) if isinstance(node.func, ast.Attribute) else parsed(name)
    return ast.Call(func, node.args, node.keywords)


def literal(value: Any) -> Any:
    return parsed(repr(value))


@cache
def parsed(text: str) -> Any:
    """The expression or statement of a text, the same tree for the same text: what stays in a source is copied."""
    node = ast.parse(text).body[0]
    return node.value if isinstance(node, ast.Expr) else node


#: mistake -> "pattern → what should stand there instead"
Rules = Mapping[str, Sequence[str]]


def rewritten(node: Any, rules: Rules) -> Found:
    """(mistake, replacement) by each rule whose pattern a node follows.

    A letter of a pattern is any expression; *r are the rest of a call's arguments, **k its keywords. A longer name is
    that of the function or method that is called, whatever stands before its dot.
    """
    for mistake, rule in ((mistake, rule) for mistake, each in rules.items() for rule in each):
        pattern, _, replacement = rule.partition(" → ")
        parts = Values()
        if _follows(node, parsed(pattern), parts):
            yield mistake, _filled(parsed(replacement), parts)


def _follows(node: Any, pattern: Any, parts: Values) -> bool:
    """Whether a node, or each of a list, follows a pattern; notes what its names stand for."""
    match pattern:
        case ast.Name(name):
            parts[name] = node
            return len(name) == 1 or name == getattr(node, "attr", getattr(node, "id", ""))
        case [*first, ast.Starred(ast.Name(rest)) | ast.keyword(None, ast.Name(rest))]:
            parts[rest] = node[len(first) :]
            return len(node) >= len(first) and _follows(node[: len(first)], first, parts)
        case [*each]:
            return len(node) == len(each) and all(_follows(n, p, parts) for n, p in zip(node, each, strict=True))
        case ast.AST():
            fields = [field for field in pattern._fields if field != "ctx"]
            is_alike = type(node) is type(pattern)
            return is_alike and all(_follows(getattr(node, f), getattr(pattern, f), parts) for f in fields)
    return bool(node == pattern)


def _filled(pattern: Any, parts: Named) -> Any:
    """The pattern as a new node, with what its names stand for in their places."""
    match pattern:
        case ast.Name(name) if name in parts:
            return parts[name]
        case [*first, ast.Starred(ast.Name(rest)) | ast.keyword(None, ast.Name(rest))]:
            return [*_filled(first, parts), *parts[rest]]
        case [*each]:
            return [_filled(one, parts) for one in each]
        case ast.AST():
            return type(pattern)(**{field: _filled(getattr(pattern, field), parts) for field in pattern._fields})
    return pattern


def transposed(node: ast.expr) -> Any:
    return parsed(f"({ast.unparse(node)}).swapaxes(-1, -2)")


def located(node: Any, at: Any) -> Any:
    """The node, which may be told by its text, at the place of another in its file."""
    node = ast.parse(node, mode="eval").body if isinstance(node, str) else node
    return ast.fix_missing_locations(ast.copy_location(node, at)) if hasattr(at, "lineno") else node


#: What has variables of its own.
SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def has_scope(node: Any) -> bool:
    """Whether it means something else where it sees the function's variables from outside."""
    if isinstance(node, str):
        return any(word in node for word in ("lambda", " for ", "super()"))
    return any(isinstance(part, SCOPES) or getattr(part, "id", "") == "super" for part in ast.walk(node))
