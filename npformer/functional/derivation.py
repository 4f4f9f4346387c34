"""The formulas of an operation's docstring, and which of them a line of code computes.

The explanations, the page of a trace, the site and the grader take a formula from here.

A formula belongs to a line if the line sets its left side. Where the code has another name than the formula, the
docstring says so: "Names in the code: γ is gamma, x̂ is x_hat."
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from npformer.functional.operation import Operation

#: Where a gradient is set.
_GRADIENT = re.compile(r"(?:^|\s)d[^\W\d]+ *=", re.M)


def split_docstring(doc: str) -> tuple[str, str, str, str]:
    """(title, formula, derivation, source) of a file of ``functional``."""
    body, _, source = doc.partition("\nSource:")
    title, _, rest = body.partition("\n\n")
    match = re.search(r"\bBackward\b", rest)
    place = match.start() if match else len(rest)
    return (
        " ".join(title.split()),
        rest[:place].strip("\n").rstrip(),
        rest[place:].strip("\n"),
        " ".join(source.split()),
    )


def formulas_of(doc: str, names: list[str]) -> tuple[str, ...]:
    """The formulas of a docstring that compute one of these names."""
    letters = letters_of(doc)
    found = [text for name in names for left, text in formulas(doc) if _is_of(name, left, letters)]
    return tuple(dict.fromkeys(found))


def letters_of(doc: str) -> dict[str, str]:
    """Name in the code -> letter in the formulas, where they differ; with those of gradients: dgamma -> dγ."""
    match = re.search(r"^Names in the code: ([^.]+)\.$", doc, re.M)
    pairs = (part.split(" is ") for part in match[1].replace("\n", " ").split(", ")) if match else ()
    return {d + name: d + letter for letter, name in pairs for d in ("", "d")}


def for_page(doc: str, operation: Operation | None = None) -> dict[str, Any]:
    """What a page shows: the title, the forward's blocks of formulas, the backward's first that has a gradient.

    Where a docstring is that of two operations, what begins with a word of one's name and a colon is about it alone.
    """
    title, formula, derivation, _ = split_docstring(doc)
    forward, backward = _blocks(formula), _blocks(derivation)
    for other in re.findall(r"^Backward as in ``(\w+)\.py``", doc, re.M):
        shared = for_page(import_module(f"npformer.functional.{other}").__doc__ or "")["backward"]
        backward = ["\n".join([*shared, *backward])]
    if operation:
        words = operation.name.replace("_", "|")
        own = re.search(rf"^({words}): .*?(?=^\w+: |^Backward|^Source|\Z)", doc, re.M | re.S | re.I)
        if own:
            forward, backward = _parted(_blocks(own[0]), backward, operation.inputs)
    return {
        "title": title,
        "forward": forward,
        "backward": (list(filter(_GRADIENT.search, backward)) or backward)[:1],
        "letters": letters_of(doc),
    }


def _parted(own: list[str], backward: list[str], inputs: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The lines without a gradient and those with one; if there is none, what ``backward`` says of the inputs."""
    lines = "\n".join(own).splitlines()
    gradients = [line for line in lines if _GRADIENT.search(line)]
    parts = [part for block in backward for line in block.splitlines() for part in parts_of(line)]
    shared = [part for part in parts if part.startswith(tuple(f"d{name}{end}" for name in inputs for end in " _"))]
    return ["\n".join(line for line in lines if line not in gradients)], ["\n".join(gradients or shared)]


def parts_of(line: str) -> list[str]:
    """The formulas and words of a line, which stand apart."""
    return [" ".join(part.split()) for part in re.split(r"\s{3,}(?![\s=])", line.strip())]


def _blocks(text: str) -> list[str]:
    """The indented paragraphs, without their indentation and with narrow gaps."""
    blocks = [part.rstrip() for part in re.split(r"\n\s*\n", text) if part.startswith("  ")]
    return [re.sub(r"(\S) {4,}(?![ =])", r"\1   ", textwrap.dedent(block)) for block in blocks]


def formulas(doc: str) -> list[tuple[str, str]]:
    """(left side, whole formula) of every formula of a docstring."""
    named = re.findall(r"^Backward, with (\S+ = [^\s:]+)", doc, re.M)
    lines = (line for line in doc.splitlines() if line.startswith("    "))
    found = []
    for part in [*named, *(part for line in lines for part in parts_of(line))]:
        left, equals, _ = part.partition(" = ")
        if equals and re.fullmatch(r"[\w\u0302²₁₂′']+", left):
            found.append((left, part))
    return found


def _is_of(name: str, left: str, letters: Mapping[str, str]) -> bool:
    """Whether the left side of a formula, with its index or without, is what the code calls by a name."""
    letter = letters.get(name, name)
    return any(each in (plain, plain.lower()) for plain in (left, _without_index(left)) for each in (name, letter))


def _without_index(left: str) -> str:
    return re.sub(r"_[a-z]{1,2}$", "", left)
