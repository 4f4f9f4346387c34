"""An operation explained: its formula, its derivation, and each line of its pair with the numbers it made.

The sample input is small and its numbers have one decimal, so that a reader can check each line by hand. An explained
operation is data: its lines as they ran, the numbers that each made, and one of them as a sum of products.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import PLAIN
from npformer.check.cases import op_samples
from npformer.check.cases.case import CaseSizes
from npformer.check.check import gradcheck
from npformer.check.inputs import as_tuple, like
from npformer.check.report import Report
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS, Draw
from npformer.functional.derivation import formulas_of, split_docstring
from npformer.see.explain.entries import CannotExpand, PairRun, call_of, definition
from npformer.see.explain.products import Expansion, Term, expand, made_in
from npformer.see.explain.text import as_json
from npformer.see.record.calls import gradient_names
from npformer.see.record.lines import Frame, Step, lines_of, tracing_lines


class Product(NamedTuple):
    """One product of a sum."""

    text: str
    sign: float
    factors: tuple[float, ...]
    value: float


class WorkedNumber(NamedTuple):
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
    entry: WorkedNumber | None
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

    run: PairRun
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
            values = {name: x for name, x in self._returned(frame, number).items() if name not in step.before}
            values = {name: x for name, x in values.items() if _is_shown(x)}
        told = (inner for inner in step.inside if not inner.function.name.startswith(("expect", "_expect")))
        stories = map(self.function, told)
        inside = tuple(story for story in stories if story.lines)
        entry = None if inside else self._entry(frame, number)
        formulas = formulas_of(frame.function.doc, list(values))
        return LineStory(step.line, _code(frame, step), values, entry, formulas, inside, kept)

    def _returned(self, frame: Frame, number: int) -> dict[str, Any]:
        """What a return gives, by name where that is known; of a forward also what it computes for the cache."""
        parts, name = as_tuple(frame.returned), frame.function.name
        if frame is self.run.root and self.returned:
            return dict(zip(self.returned, parts, strict=True))
        made = list(made_in(self.run, frame, number))
        if name.endswith("_forward"):
            kept = {each: x for each, spot, x in made[1:] if isinstance(spot.node, ast.BinOp | ast.Call)}
            kept = {each: x for each, x in kept.items() if each}
            is_named = made and isinstance(made[0][1].node, ast.Name)  # an earlier line set it
            return kept if is_named else {"y": parts[0]} | kept
        return dict(zip(_returned_names(frame), parts, strict=False)) if name.endswith("_backward") else {}

    def _first(self, frame: Frame) -> str:
        """The name of the first value that a function returns."""
        if frame is self.run.root and self.returned:
            return self.returned[0]
        return _returned_names(frame)[0] if frame.function.name.endswith("_backward") else "y"

    def _entry(self, frame: Frame, number: int) -> WorkedNumber | None:
        """One entry of what a line made, as a sum of products."""
        step = frame.steps[number]
        if not isinstance(step.node, ast.Assign | ast.Return):
            return None
        for name, spot, value in made_in(self.run, frame, number):
            source = definition(spot) or spot
            only_moves = source.is_named or isinstance(source.node, ast.Constant) or source.part is not None
            if not name or only_moves or not isinstance(value, np.ndarray) or value.dtype.kind != "f":
                continue
            index = _telling(value)
            try:
                expansion = expand(replace(spot, index=index))
            except CannotExpand:
                continue
            if expansion.line.number == step.line and _is_readable(expansion):
                name = self._first(frame) if name == "return" else name
                named = f"{name}[{','.join(map(str, index))}]" if index else name
                return WorkedNumber(named, tuple(map(_product, expansion.terms)), float(value[index]), expansion.around)
        return None


def _product(term: Term) -> Product:
    return Product(term.text, term.sign, tuple(factor.value for factor in term.factors), term.value)


def _telling(value: Any) -> tuple[int, ...]:
    """The index of an entry that shows most: the last row's first entry that is not 0."""
    places = [index for index in np.ndindex(value.shape) if value[index] != 0] or [(0,) * value.ndim]
    last = max(index[:-1] for index in places)
    return next(tuple(int(i) for i in index) for index in places if index[:-1] == last)


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


#: The sizes of a sample, by the letters of the glossary; I, O and K as in ``op_samples``.
SIZES = {"B": 1, "T": 3, "S": 3, "C": 3, "H": 1, "D": 2, "F": 3, "V": 4, "I": 3, "O": 2, "K": 4}


class _Readable(CaseSizes):
    """Small sizes, the usual options, no dropout, and numbers with one decimal."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(4))
        vars(self).update(SIZES)

    def normal(self, *shape: int) -> Any:
        return _one_decimal(self._rng, shape)

    def visible(self, *shape: int, least: int = 0) -> Any:
        """All but the last."""
        mask = np.ones(shape, dtype=bool)
        mask[..., -1] = False
        return mask

    def draw(self) -> Draw | None:
        return None

    def choice(self, *options: Any) -> Any:
        return options[0]


def sample_inputs(name: str) -> tuple[Any, ...]:
    """The sample's inputs of an operation."""
    inputs: tuple[Any, ...] = getattr(op_samples, name)(_Readable())
    return inputs


def explained_operation(name: str) -> OperationStory:
    """Explain the operation with this name. Raises ConfigError for another name."""
    if name not in OPERATIONS:
        raise ConfigError(f"explain: expected the name of an operation, one of {', '.join(OPERATIONS)}, got {name!r}")
    row, pair, inputs = OPERATIONS[name], getattr(PLAIN, name), sample_inputs(name)
    with tracing_lines() as tracer:
        y, cache = row.forward(*inputs)
        rng = np.random.default_rng(5)
        ones = [np.asarray(_one_decimal(rng, np.shape(part))) for part in as_tuple(y)]
        dy = like(y, ones) if np.ndim(as_tuple(y)[0]) else 1.0
        gradients = row.backward(dy, cache)
        forward, backward = tracer.frames
    title, formula, derivation, source = split_docstring(import_module(row.forward.__module__).__doc__ or "")
    names = gradient_names(pair, len(gradients))
    return OperationStory(
        name,
        title,
        formula,
        derivation,
        source,
        dict(zip(row.inputs, inputs, strict=False)),
        next(iter(backward.arguments)),
        dy,
        Reader(PairRun(forward), ()).function(forward),
        Reader(PairRun(backward), [f"d{each}" for each in names]).function(backward),
        {f"d{each}": gradient for each, gradient in zip(names, gradients, strict=True)},
        gradcheck(pair, *inputs, name=name, allow_length_one=True),
    )


def _one_decimal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers with one decimal, none of them 0."""
    numbers = np.round(rng.normal(size=shape), 1)
    return np.where(numbers == 0, 0.5, numbers)
