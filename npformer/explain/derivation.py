"""The formulas of an operation's docstring, and which of them a line of code computes.

A formula belongs to a line if the line sets its left side. Letters of the formulas and names of the code are matched by
a table: γ is gamma, x̂ is x_hat.
"""

from __future__ import annotations

import re

#: Letters of formulas -> names in code.
_LETTERS = {"γ": "gamma", "β": "beta", "x̂": "x_hat", "μ": "mean", "σ²": "variance", "δ": "delta"}
#: Of these, those that the code has a name for.
CODED = {"gamma", "beta", "x_hat"}
#: Names in code -> the left side in the docstring, without its index, where the letters differ.
_NAMES = {"dweight": "dW", "dbias": "db", "dlogits": "dz", "dw1": "dW₁"}


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
    found = [text for name in names for left, text in formulas(doc) if _same(left, name)]
    return tuple(dict.fromkeys(found))


def letters_in(text: str) -> str:
    """The letters of a text with their names in code: "γ is gamma, x̂ is x_hat"."""
    return ", ".join(f"{letter} is {name}" for letter, name in _LETTERS.items() if letter in text and name in CODED)


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


def _same(left: str, name: str) -> bool:
    """Whether the left side of a formula and a name of the code mean the same."""
    plain = left
    for letter, word in _LETTERS.items():
        plain = plain.replace(letter, word)
    plain = re.sub(r"_[a-z]{1,2}$", "", plain) if plain not in (name, "x_hat") else plain
    return name in (plain, plain.lower()) or plain == _NAMES.get(name)
