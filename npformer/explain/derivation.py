"""The formulas of an operation's docstring, and which of them a line of code computes.

A formula belongs to a line if the line sets its left side. Where the code has another name than the formula, the
docstring says so: "Names in the code: γ is gamma, x̂ is x_hat."
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any


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


def for_page(doc: str) -> dict[str, Any]:
    """What a page shows: the title, the forward's blocks of formulas, the backward's first that has a gradient."""
    title, formula, derivation, _ = split_docstring(doc)
    backward = _blocks(derivation)
    gradients = [block for block in backward if re.search(r"(^|\s)d[^\W\d]+ *=", block, re.M)]
    return {
        "title": title,
        "forward": _blocks(formula),
        "backward": (gradients or backward)[:1],
        "letters": letters_of(doc),
    }


def _blocks(text: str) -> list[str]:
    """The indented paragraphs, without their indentation and with narrow gaps."""
    blocks = [part.rstrip() for part in re.split(r"\n\s*\n", text) if part.startswith("  ")]
    return [re.sub(r"(\S) {4,}", r"\1   ", textwrap.dedent(block)) for block in blocks]


def formulas(doc: str) -> list[tuple[str, str]]:
    """(left side, whole formula) of every formula of a docstring."""
    named = re.findall(r"^Backward, with (\S+ = [^\s:]+)", doc, re.M)
    lines = (line.strip() for line in doc.splitlines() if line.startswith("    "))
    found = []
    for part in [*named, *(part for line in lines for part in re.split(r"\s{3,}(?![\s=])", line))]:
        left, equals, _ = part.partition(" = ")
        if equals and re.fullmatch(r"[\w\u0302²₁₂′']+", left.strip()):
            found.append((left.strip(), " ".join(part.split())))
    return found


def _is_of(name: str, left: str, letters: Mapping[str, str]) -> bool:
    """Whether the left side of a formula, with its index or without, is what the code calls by a name."""
    letter = letters.get(name, name)
    return any(each in (plain, plain.lower()) for plain in (left, _without_index(left)) for each in (name, letter))


def _without_index(left: str) -> str:
    return re.sub(r"_[a-z]{1,2}$", "", left)
