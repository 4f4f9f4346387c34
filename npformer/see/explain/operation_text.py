"""An explained operation as text, for a terminal of any width from 60 to 160 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from npformer import typing
from npformer.functional import AttentionMask
from npformer.see.explain.operation import FunctionStory, LineStory, OperationStory, Product, WorkedNumber
from npformer.see.explain.text import fitting

#: What a word of a derivation, or the name of an input, means; told where it occurs.
WORDS = {
    "keep": "keep is 1 for a number that dropout keeps, 0 for one that it drops; the factor s keeps their mean.",
    "draw": "draw says which random numbers dropout takes (bits makes them); None: nothing is dropped, keep·s is 1.",
    "mask": "In a mask, key_visible says which keys may be looked at (False: padding). causal hides keys after the "
    "query, window those that are further off, stride those at distances that it does not divide; None hides nothing.",
}


def operation_lines(story: OperationStory, width: int = 100) -> Iterator[str]:
    """Formula, derivation, the sample, each line of forward and backward with its numbers, both witnesses."""
    page = _Page(fitting(width))
    yield from _opening(page, story)
    yield from page.headed("forward, line by line")
    yield from page.function(story.forward, 0)
    yield from page.headed("backward, line by line")
    yield from page.wrapped("It begins with the gradient of the output, here some numbers:")
    yield from page.value(story.upstream_name, story.upstream, 0)
    yield from page.function(story.backward, 0)
    yield from page.headed("the gradients, and two measurements")
    for name, x in story.gradients.items():
        yield from page.value(name, x, 0)
    yield ""
    yield from page.wrapped("The check draws upstream gradients of its own, so its numbers are not those above:")
    yield from story.report.lines(page.width)
    verdict = "every gradient is right" if story.report.ok else "a gradient is not right"
    yield from page.wrapped(
        f"numeric: the complex step, which knows only the forward; central differences agree with it. So {verdict}."
    )


def forward_lines(story: OperationStory, width: int = 100) -> Iterator[str]:
    """The formula and each line of the forward with its numbers; nothing of what is to be derived from it."""
    page = _Page(fitting(width))
    yield from page.wrapped(story.title)
    yield ""
    yield from page.block(story.formula)
    yield from _sample(page, story, story.formula)
    yield from page.headed("forward, line by line")
    yield from page.function(story.forward, 0)


def _sample(page: _Page, story: OperationStory, formulas: str) -> Iterator[str]:
    """The inputs, and the words that they and the formulas use."""
    yield from page.headed("a small input")
    for name, x in story.inputs.items():
        yield from page.value(name, x, 0)
    for sentence in words_of(formulas, story.inputs):
        yield from page.wrapped(sentence, hanging=4)


def words_of(formulas: str, names: Iterable[str]) -> Iterator[str]:
    """What formulas and inputs call by a word: mean_C, Σ_S, keep, draw, the fields of a mask."""
    for word, kind, letter in sorted(set(re.findall(r"((mean|Σ)_([A-Z]))\b", formulas))):
        over = re.search(rf"\b{letter}  (\w[^,:\n]*?)(?:  |[,:\n])", typing.__doc__ or "")
        if over:
            yield f"{word} is the {kind.replace('Σ', 'sum')} over {letter}: {over[1]}."
    known = {*re.findall(r"\w+", formulas), *names}
    yield from (sentence for word, sentence in WORDS.items() if word in known)


def _opening(page: _Page, story: OperationStory) -> Iterator[str]:
    """Title, formula, derivation and source; how to read what follows; the sample."""
    yield from page.wrapped(story.title)
    yield ""
    yield from page.block(story.formula)
    if story.derivation:
        yield ""
        yield from page.block(story.derivation)
    if story.source:
        yield ""
        yield from page.wrapped(f"Source: {story.source}")
    yield from page.headed("how to read this")
    yield from page.wrapped(
        "dX is the gradient of the loss with respect to X: the loss changes by dX·h if X changes by a small h. It has "
        "the shape of X. By the chain rule, the gradient of a value is the sum, over all its uses, of the gradient of "
        "what it was used for times the slope of that use. Below, each line has its number in the file. With it stand "
        "the formulas that it computes, the numbers that it made, and one of these worked out from the numbers before. "
        "xp is the array library, here NumPy."
    )
    yield from _sample(page, story, story.formula + story.derivation)


@dataclass
class _Page:
    """Lines of one width."""

    width: int

    def headed(self, text: str) -> Iterator[str]:
        """A heading."""
        yield ""
        yield f"── {text} {'─' * max(0, self.width - len(text) - 4)}"[: self.width]

    def wrapped(self, text: str, indent: int = 0, hanging: int = 0) -> Iterator[str]:
        """A paragraph."""
        yield from textwrap.wrap(
            text, self.width, initial_indent=" " * indent, subsequent_indent=" " * (indent + hanging)
        ) or [""]

    def block(self, text: str) -> Iterator[str]:
        """A docstring: paragraphs are filled anew; formulas, which are indented, keep their lines."""
        for is_prose, lines in groupby(text.splitlines(), lambda line: bool(line) and not line.startswith(" ")):
            if is_prose:
                yield from self.wrapped(" ".join(lines))
            else:
                for line in lines:
                    yield from self.formula(line)

    def formula(self, line: str) -> Iterator[str]:
        """One line; if it is too wide, it is broken where it has a wide gap."""
        while len(line) > self.width:
            place = line.rfind("   ", 8, self.width)
            place = place if place > 8 else line.rfind(" ", 8, self.width)
            place = place if place > 8 else self.width
            yield line[:place].rstrip()
            line = "        " + line[place:].strip()
        yield line

    def function(self, story: FunctionStory, depth: int) -> Iterator[str]:
        """A function's lines."""
        given = "; ".join(f"{name} is {text}" for name, text in story.given.items())
        yield from self.wrapped(f"{story.name}  ({story.file}){', where ' if given else ''}{given}", depth, 4)
        for line in story.lines:
            yield from self.line(line, depth)

    def line(self, line: LineStory, depth: int) -> Iterator[str]:
        """One line: its code, the formulas that it computes, its numbers, and one of them worked out."""
        yield ""
        yield from self.code(line, depth)
        for formula in line.formulas:
            yield from self.wrapped(f"formula  {' '.join(formula.split())}", depth + 6, 9)
        for inner in line.inside:
            yield from self.function(inner, depth + 6)
        if line.kept:
            yield from self.wrapped(f"kept by the forward: {', '.join(line.kept)}", depth + 6, 4)
        for name, x in line.values.items():
            yield from self.value(name, x, depth + 6)
        if line.entry is not None:
            yield from self.entry(line.entry, depth + 6)

    def code(self, line: LineStory, depth: int) -> Iterator[str]:
        """The source of a line, with its number."""
        for i, text in enumerate(line.code.splitlines()):
            first = f"{line.line:>4}  " if i == 0 else "      "
            room = self.width - depth - 6
            parts = textwrap.wrap(text, room, subsequent_indent="    ", break_long_words=True) or [""]
            for j, part in enumerate(parts):
                yield f"{'':{depth}}{first if j == 0 else '      '}{part}"

    def entry(self, entry: WorkedNumber, depth: int) -> Iterator[str]:
        """One number as the sum of its products."""
        sums = " + ".join(product.text for product in entry.products).replace("+ −", "− ")
        numbers = " + ".join(map(_product, entry.products))
        total = sum(product.value for product in entry.products)
        start = f"{entry.around}, sum = " if entry.around else ""
        yield from self.wrapped(f"so {entry.name} = {start}{sums}", depth, 4)
        yield from self.wrapped(f"= {numbers} = {total:.4g}".replace("+ −", "− "), depth + 4, 2)
        if entry.around:
            yield from self.wrapped(f"{entry.around} = {entry.value:.4g}", depth + 4, 2)

    def value(self, name: str, x: Any, depth: int) -> Iterator[str]:
        """A name with its value."""
        shape = f" {tuple(x.shape)}" if isinstance(x, np.ndarray) and x.ndim else ""
        text = _text(x, self.width - depth - 4)
        first = f"{'':{depth}}{name}{shape} = "
        if "\n" not in text and len(first) + len(text) <= self.width:
            yield first + text
            return
        yield first.rstrip()
        for line in text.splitlines():
            yield from [f"{'':{depth + 4}}{line}"] if isinstance(x, np.ndarray) else self.wrapped(line, depth + 4, 4)


def _product(product: Product) -> str:
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
