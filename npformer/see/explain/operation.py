"""An operation explained: its formula, its derivation, and each line of its pair with the numbers it made.

The sample input is small and its numbers have one decimal, so that a reader can check each line by hand. An explained
operation is data: its lines as they ran, the numbers that each made, and one of them as a sum of products; as JSON, and
as text for a terminal of any width from 60 to 160 columns.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from npformer import typing
from npformer.backend import PLAIN
from npformer.check.cases import op_samples
from npformer.check.cases.case import UsualSizes
from npformer.check.check import gradcheck
from npformer.check.inputs import as_tuple, like
from npformer.check.report import Report
from npformer.functional import OPERATIONS, AttentionMask, Draw
from npformer.functional.derivation import formulas_of, split_docstring
from npformer.see.explain.entries import CannotExpand, PairRun, call_of, definition
from npformer.see.explain.products import Expansion, Term, expand, made_in
from npformer.see.explain.text import Sheet, as_json
from npformer.see.record.calls import gradient_names
from npformer.see.record.lines import Frame, Statement, lines_of, tracing_lines

#: The sizes of a sample, by the letters of the glossary; I, O and K as in ``op_samples``.
SIZES = {"B": 1, "T": 3, "S": 3, "C": 3, "H": 1, "D": 2, "F": 3, "V": 4, "I": 3, "O": 2, "K": 4}
#: What a word of a derivation, or the name of an input, means; told where it occurs.
WORDS = {
    "keep": "keep is 1 for a number that dropout keeps, 0 for one that it drops; the factor s keeps their mean.",
    "draw": "draw says which random numbers dropout takes (bits makes them); None: nothing is dropped, keep·s is 1.",
    "mask": "In a mask, key_visible says which keys may be looked at (False: padding). causal hides keys after the "
    "query, window those that are further off, stride those at distances that it does not divide; None hides nothing.",
}


class WorkedProduct(NamedTuple):
    """One product of a sum."""

    text: str
    sign: float
    factors: tuple[float, ...]
    value: float


class WorkedNumber(NamedTuple):
    """One number of a line as a sum of products, from the numbers before it; around: as in ``Expansion``."""

    name: str
    products: tuple[WorkedProduct, ...]
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

    def _line(self, frame: Frame, number: int, step: Statement) -> LineStory:
        kept = _unpacked(step)
        is_last = isinstance(step.node, ast.Return)
        made, known = (self._returned(frame, number), step.before) if is_last else (step.values, kept)
        values = {name: x for name, x in made.items() if _is_shown(x) and name not in known}
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
                name = next(iter(self._returned(frame, number)), "y") if name == "return" else name
                named = f"{name}[{','.join(map(str, index))}]" if index else name
                return WorkedNumber(named, tuple(map(_product, expansion.terms)), float(value[index]), expansion.around)
        return None


def _product(term: Term) -> WorkedProduct:
    return WorkedProduct(term.text, term.sign, tuple(factor.value for factor in term.factors), term.value)


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


def _unpacked(step: Statement) -> tuple[str, ...]:
    """The names that a statement takes out of the cache."""
    match step.node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id=cache)) if _is_named(step.before.get(cache)):
            return tuple(ast.unparse(name) for name in names)
    return ()


def _is_readable(expansion: Expansion) -> bool:
    """Whether its products say something: they are few, and no factor is a whole expression without a name."""
    labels = [factor.label for term in expansion.terms for factor in term.factors]
    is_short = len(labels) > 1 and len(expansion.terms) <= 12 and max(map(len, labels)) <= 40
    return is_short and expansion.outside is None


def _is_named(x: Any) -> bool:
    """Whether a value is a named tuple, as a cache is."""
    return hasattr(x, "_fields")


def _is_shown(x: Any) -> bool:
    """Whether a value is numbers. A tuple of integers is none, but axes or a shape."""
    if isinstance(x, tuple | list):
        is_shape = isinstance(x, tuple) and all(isinstance(part, int) for part in x)
        return bool(x) and not _is_named(x) and not is_shape and all(_is_shown(part) for part in x)
    return isinstance(x, np.ndarray | np.generic | float | int) and not isinstance(x, bool)


def _code(frame: Frame, step: Statement) -> str:
    """The source of a line, with its comment."""
    text, node = frame.function.text, step.node
    if text is None or node is None:
        return ""
    first = step.line - frame.function.code.co_firstlineno
    return "\n".join(line.strip() for line in text.splitlines()[first : first + len(lines_of(node))])


class _Readable(UsualSizes):
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


def sample_inputs(name: str) -> tuple[Any, ...]:
    """The sample's inputs of an operation."""
    return getattr(op_samples, name)(_Readable())  # type: ignore[no-any-return]


def explained_operation(name: str) -> OperationStory:
    """Explain the operation with this name."""
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


def operation_lines(story: OperationStory, width: int = 100) -> list[str]:
    """Formula, derivation, the sample, each line of forward and backward with its numbers, both witnesses."""
    page = _OperationPage(width)
    page.opening(story)
    page.headed("forward, line by line")
    page.function(story.forward)
    page.headed("backward, line by line")
    page.wrapped("It begins with the gradient of the output, here some numbers:")
    page.value(story.upstream_name, story.upstream)
    page.function(story.backward)
    page.headed("the gradients, and two measurements")
    page.values(story.gradients)
    page.lines.append("")
    page.wrapped("The check draws upstream gradients of its own, so its numbers are not those above:")
    page.lines += story.report.lines(page.width)
    verdict = "every gradient is right" if story.report.ok else "a gradient is not right"
    page.wrapped(
        f"numeric: the complex step, which knows only the forward; central differences agree with it. So {verdict}."
    )
    return page.lines


def forward_lines(story: OperationStory, width: int = 100) -> list[str]:
    """The formula and each line of the forward with its numbers; nothing of what is to be derived from it."""
    page = _OperationPage(width)
    page.wrapped(story.title)
    page.block(story.formula)
    page.sample(story, story.formula)
    page.headed("forward, line by line")
    page.function(story.forward)
    return page.lines


def words_of(formulas: str, names: Iterable[str]) -> Iterator[str]:
    """What formulas and inputs call by a word: mean_C, Σ_S, keep, draw, the fields of a mask."""
    for word, kind, letter in sorted(set(re.findall(r"((mean|Σ)_([A-Z]))\b", formulas))):
        over = re.search(rf"\b{letter}  (\w[^,:\n]*?)(?:  |[,:\n])", typing.__doc__ or "")
        if over:
            yield f"{word} is the {kind.replace('Σ', 'sum')} over {letter}: {over[1]}."
    known = {*re.findall(r"\w+", formulas), *names}
    yield from (sentence for word, sentence in WORDS.items() if word in known)


class _OperationPage(Sheet):
    """The lines of an operation. depth: how far a paragraph is set in."""

    def opening(self, story: OperationStory) -> None:
        """Title, formula, derivation and source; how to read what follows; the sample."""
        self.wrapped(story.title)
        for text in filter(None, (story.formula, story.derivation, story.source and f"Source: {story.source}")):
            self.block(text)
        self.headed("how to read this")
        self.wrapped(
            "dX is the gradient of the loss with respect to X: the loss changes by dX·h if X changes by a small h. It "
            "has the shape of X. By the chain rule, the gradient of a value is the sum, over all its uses, of the "
            "gradient of what it was used for times the slope of that use. Below, each line has its number in the "
            "file. With it stand the formulas that it computes, the numbers that it made, and one of these worked out "
            "from the numbers before. xp is the array library, here NumPy."
        )
        self.sample(story, story.formula + story.derivation)

    def sample(self, story: OperationStory, formulas: str) -> None:
        """The inputs, and the words that they and the formulas use."""
        self.headed("a small input")
        self.values(story.inputs)
        for sentence in words_of(formulas, story.inputs):
            self.set_in(sentence, 0, 4)

    def headed(self, text: str) -> None:
        """A heading."""
        self.lines += ["", f"── {text} {'─' * max(0, self.width - len(text) - 4)}"[: self.width]]

    def set_in(self, text: str, depth: int, hanging: int) -> None:
        """A paragraph that is set in, its further lines by so much more."""
        self.wrapped(text, " " * depth, " " * (depth + hanging))

    def block(self, text: str) -> None:
        """A docstring: paragraphs are filled anew; formulas, which are indented, keep their lines."""
        self.lines.append("")
        for is_prose, lines in groupby(text.splitlines(), lambda line: bool(line) and not line.startswith(" ")):
            if is_prose:
                self.wrapped(" ".join(lines))
            else:
                for line in lines:
                    self.formula(line)

    def formula(self, line: str) -> None:
        """One line; if it is too wide, it is broken where it has a wide gap."""
        while len(line) > self.width:
            gaps = (line.rfind(gap, 8, self.width) for gap in ("   ", " "))
            place = next((place for place in gaps if place > 8), self.width)
            self.lines.append(line[:place].rstrip())
            line = "        " + line[place:].strip()
        self.lines.append(line)

    def function(self, story: FunctionStory, depth: int = 0) -> None:
        """A function's lines."""
        given = "; ".join(f"{name} is {text}" for name, text in story.given.items())
        self.set_in(f"{story.name}  ({story.file}){', where ' if given else ''}{given}", depth, 4)
        for line in story.lines:
            self.line(line, depth)

    def line(self, line: LineStory, depth: int) -> None:
        """One line: its code, the formulas that it computes, its numbers, and one of them worked out."""
        self.lines.append("")
        first, inner = f"{'':{depth}}{line.line:>4}  ", depth + 6
        for text in line.code.splitlines():
            parts = textwrap.wrap(text, self.width - inner, subsequent_indent="    ") or [""]
            for part in parts:
                self.lines.append(first + part)
                first = " " * inner
        for formula in line.formulas:
            self.set_in(f"formula  {' '.join(formula.split())}", inner, 9)
        for function in line.inside:
            self.function(function, inner)
        if line.kept:
            self.set_in(f"kept by the forward: {', '.join(line.kept)}", inner, 4)
        self.values(line.values, inner)
        if line.entry is not None:
            self.entry(line.entry, inner)

    def entry(self, entry: WorkedNumber, depth: int) -> None:
        """One number as the sum of its products."""
        sums = " + ".join(product.text for product in entry.products).replace("+ −", "− ")
        numbers = " + ".join(map(_multiplied, entry.products))
        total = sum(product.value for product in entry.products)
        start = f"{entry.around}, sum = " if entry.around else ""
        self.set_in(f"so {entry.name} = {start}{sums}", depth, 4)
        self.set_in(f"= {numbers} = {total:.4g}".replace("+ −", "− "), depth + 4, 2)
        if entry.around:
            self.set_in(f"{entry.around} = {entry.value:.4g}", depth + 4, 2)

    def values(self, named: Mapping[str, Any], depth: int = 0) -> None:
        """Names with their values."""
        for name, x in named.items():
            self.value(name, x, depth)

    def value(self, name: str, x: Any, depth: int = 0) -> None:
        """A name with its value."""
        shape = f" {tuple(x.shape)}" if isinstance(x, np.ndarray) and x.ndim else ""
        text = _text(x, self.width - depth - 4)
        first = f"{'':{depth}}{name}{shape} = "
        if "\n" not in text and len(first) + len(text) <= self.width:
            self.lines.append(first + text)
            return
        self.lines.append(first.rstrip())
        if isinstance(x, np.ndarray):
            self.lines += [f"{'':{depth + 4}}{line}" for line in text.splitlines()]
        else:
            for line in text.splitlines():
                self.set_in(line, depth + 4, 4)


def _multiplied(product: WorkedProduct) -> str:
    text = "·".join(f"({each:.4g})" if each < 0 else f"{each + 0.0:.4g}" for each in product.factors)
    return f"−{text}" if product.sign < 0 else text


def _text(x: Any, width: int) -> str:
    if isinstance(x, np.ndarray):
        shown = _squeezed(x) + 0.0 if x.dtype.kind == "f" else _squeezed(x)  # −0 is shown as 0
        return np.array2string(shown, precision=4, suppress_small=True, max_line_width=max(20, width), threshold=200)
    if isinstance(x, tuple | list):
        return "\n".join(_text(part, width) for part in x)
    if isinstance(x, AttentionMask):
        seen = "" if x.key_visible is None else f"key_visible={x.key_visible.tolist()}, "
        return f"AttentionMask({seen}causal={x.causal}, window={x.window}, stride={x.stride})"
    return f"{x:.6g}" if isinstance(x, float | np.floating) else str(x)


def _squeezed(x: Any) -> Any:
    """The array without leading axes of length 1, for reading."""
    while x.ndim > 2 and x.shape[0] == 1:
        x = x[0]
    return x
