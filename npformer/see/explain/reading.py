"""Reads the lines of a pair as they ran: the numbers that each made, and one of them as a sum of products.

An explained operation is data: its lines with their numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import PLAIN
from npformer.check.inputs import as_tuple
from npformer.check.report import Report
from npformer.functional import OPERATIONS
from npformer.functional.derivation import formulas_of
from npformer.see.explain.as_json import as_json
from npformer.see.explain.expand import Expansion, Term, expand
from npformer.see.explain.spots import CannotExpand, Run, Spot, call_of
from npformer.see.record.jacobian import gradient_names
from npformer.see.record.lines import Frame, Step, lines_of


class Product(NamedTuple):
    """One product of a sum."""

    text: str
    sign: float
    factors: tuple[float, ...]
    value: float


class Entry(NamedTuple):
    """One number of a line as a sum of products, from the numbers before it; around: as in ``Expansion``."""

    name: str
    products: tuple[Product, ...]
    value: float
    around: str


@dataclass(frozen=True)
class LineStory:
    """One line as it ran.

    values: the names that it set. formulas: of the derivation, those that this line computes. inside: the functions
    that it called.
    """

    line: int
    code: str
    values: dict[str, Any]
    entry: Entry | None
    formulas: tuple[str, ...]
    inside: tuple[FunctionStory, ...]
    kept: tuple[str, ...] = ()  # the names that it takes out of the cache


@dataclass(frozen=True)
class FunctionStory:
    """One function as it ran; given: its arguments, and what the caller has for each, where the names differ."""

    name: str
    file: str
    given: dict[str, str]
    lines: tuple[LineStory, ...]


@dataclass(frozen=True)
class OperationStory:
    """All of it; inputs and dy are the sample's."""

    name: str
    title: str
    formula: str
    derivation: str
    source: str
    inputs: dict[str, Any]
    upstream_name: str
    upstream: Any
    forward: FunctionStory
    backward: FunctionStory
    gradients: dict[str, Any]
    report: Report = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        told: dict[str, Any] = as_json(self)
        return {"format": "npformer-operation", "version": 1} | told | {"check": self.report.to_dict()}


@dataclass
class Reader:
    """Reads the frames of one run; returned: what the run's function returns, by name."""

    run: Run
    returned: Sequence[str]

    def function(self, frame: Frame) -> FunctionStory:
        """A frame, line by line."""
        lines = tuple(self._line(frame, number, step) for number, step in enumerate(frame.steps))
        path = frame.function.path.removeprefix("npformer/")
        told = tuple(
            line
            for line in lines
            if (line.values or line.inside or line.entry or line.kept) and not line.code.startswith("expect")
        )
        return FunctionStory(frame.function.name, path, dict(self._given(frame)), told)

    def _given(self, frame: Frame) -> Iterator[tuple[str, str]]:
        """The arguments that the caller calls by another name."""
        call = call_of(self.run, frame)
        for name, node in zip(frame.arguments, call[1].args, strict=False) if call is not None else ():
            text = ast.unparse(node)
            if text != name and len(text) <= 40 and not isinstance(node, ast.Constant):
                yield name, text

    def _line(self, frame: Frame, number: int, step: Step) -> LineStory:
        kept = _unpacked(step)
        values = {name: x for name, x in step.values.items() if _is_shown(x) and name not in kept}
        if isinstance(step.node, ast.Return):
            values = {name: x for name, x in self._returned(frame, step).items() if name not in step.before}
        told = (inner for inner in step.inside if not inner.function.name.startswith(("expect", "_expect")))
        stories = map(self.function, told)
        inside = tuple(story for story in stories if story.lines)
        entry = None if inside else self._entry(frame, number, step)
        formulas = formulas_of(frame.function.doc, list(values))
        return LineStory(step.line, _code(frame, step), values, entry, formulas, inside, kept)

    def _returned(self, frame: Frame, step: Step) -> dict[str, Any]:
        """What a return gives, by name where that is known."""
        parts = as_tuple(frame.returned)
        if frame is self.run.root and self.returned:
            return dict(zip(self.returned, parts, strict=True))
        if frame.function.name.endswith("_forward"):
            kept = {name: x for name, _, x in _kept(step, parts[-1]) if _is_shown(x)}
            return kept if _names_first(step) else {"y": parts[0]} | kept
        if frame.function.name.endswith("_backward"):
            names = _returned_names(frame)
            return {name: x for name, x in zip(names, parts, strict=False) if _is_shown(x)}
        return {}

    def _entry(self, frame: Frame, number: int, step: Step) -> Entry | None:
        """One entry of what a line made, as a sum of products."""
        first = self.returned[0] if frame is self.run.root and self.returned else _first_returned(frame)
        for made, node, value in _made(step, frame):
            name = first if made == "return" else made
            only_moves = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Constant)
            if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or only_moves:
                continue
            index = _telling(value)
            try:
                expansion = expand(Spot(self.run, frame, number, node, index))
            except CannotExpand:
                continue
            if expansion.line.number == step.line and _is_readable(expansion):
                named = f"{name}[{','.join(map(str, index))}]" if index else name
                return Entry(named, tuple(map(_product, expansion.terms)), float(value[index]), expansion.around)
        return None


def _product(term: Term) -> Product:
    return Product(term.text, term.sign, tuple(factor.value for factor in term.factors), term.value)


def _made(step: Step, frame: Frame) -> Iterator[tuple[str, ast.expr, Any]]:
    """(name, expression, value) of each name that a statement set, and of the first value that it returned."""
    match step.node:
        case ast.Return(ast.expr() as value):
            first = value.elts[0] if isinstance(value, ast.Tuple) else value
            yield "return", first, as_tuple(frame.returned)[0]
            yield from _kept(step, as_tuple(frame.returned)[-1])
        case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name):
                    yield name.id, value, step.values.get(name.id)
        case ast.Assign(targets, value):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, value, step.values.get(target.id)


def _telling(value: Any) -> tuple[int, ...]:
    """The index of an entry that shows most: the last row's first entry that is not 0."""
    places = [index for index in np.ndindex(value.shape) if value[index] != 0] or [(0,) * value.ndim]
    last = max(index[:-1] for index in places)
    return next(tuple(int(i) for i in index) for index in places if index[:-1] == last)


def _kept(step: Step, cache: Any) -> Iterator[tuple[str, ast.expr, Any]]:
    """(name, expression, value) of each number that a return computes for the cache."""
    match step.node:
        case ast.Return(value=ast.Tuple(elts=[*_, ast.Call(args=args)])) if _is_named(cache):
            for name, node, x in zip(cache._fields, args, cache, strict=False):
                if isinstance(node, ast.BinOp | ast.Call):
                    yield name, node, x


def _names_first(step: Step) -> bool:
    """Whether the first value of a return is a name, which an earlier line set."""
    match step.node:
        case ast.Return(value=ast.Tuple(elts=[ast.Name(), *_]) | ast.Name()):
            return True
    return False


def _first_returned(frame: Frame) -> str:
    """The name of the first value that a nested function returns."""
    return "y" if not frame.function.name.endswith("_backward") else _returned_names(frame)[0]


def _returned_names(frame: Frame) -> list[str]:
    """The names of the gradients that a nested backward returns: d and the forward's argument."""
    name = frame.function.name.removesuffix("_backward")
    if name in OPERATIONS:
        return [f"d{each}" for each in gradient_names(getattr(PLAIN, name), len(as_tuple(frame.returned)))]
    return ["returns"] * len(as_tuple(frame.returned))


def _unpacked(step: Step) -> tuple[str, ...]:
    """The names that a statement takes out of the cache."""
    match step.node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id=cache)) if _is_named(step.before.get(cache)):
            return tuple(ast.unparse(name) for name in names)
    return ()


def _is_readable(expansion: Expansion) -> bool:
    """Whether its products say something: they are few, and no factor is a whole expression without a name."""
    factors = [factor for term in expansion.terms for factor in term.factors]
    if expansion.outside is not None or not 0 < len(expansion.terms) <= 12 or any(len(f.label) > 40 for f in factors):
        return False
    return len(factors) > 1


def _is_named(x: Any) -> bool:
    """Whether a value is a named tuple, as a cache is."""
    return hasattr(x, "_fields")


def _is_shown(x: Any) -> bool:
    """Whether a value is numbers. A tuple of integers is none, but axes or a shape."""
    if isinstance(x, tuple | list):
        is_shape = isinstance(x, tuple) and all(isinstance(part, int) for part in x)
        return bool(x) and not _is_named(x) and not is_shape and all(_is_shown(part) for part in x)
    return isinstance(x, np.ndarray | np.generic | float | int) and not isinstance(x, bool)


def _code(frame: Frame, step: Step) -> str:
    """The source of a line, with its comment."""
    text, node = frame.function.text, step.node
    if text is None or node is None:
        return ""
    first = step.line - frame.function.code.co_firstlineno
    return "\n".join(line.strip() for line in text.splitlines()[first : first + len(lines_of(node))])
