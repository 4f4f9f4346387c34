"""Formulas of docstrings, which are written in Unicode, as TeX: 1/√(σ² + ε) becomes a fraction with a root.

From the loosest: all signs but these, the fraction's /, neighbours (Q Kᵀ), indices and powers.
"""

from __future__ import annotations

import re
from itertools import accumulate

_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ", [*"0123456789", "-", r"\top"], strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_LETTERS = {
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon", "μ": r"\mu",
    "σ": r"\sigma", "φ": r"\varphi", "ω": r"\omega", "π": r"\pi", "Φ": r"\Phi",
}  # fmt: skip
_SIGNS = {
    "−": "-", "·": r"\cdot ", "≥": r"\geq ", "≤": r"\leq ", "…": r"\dots ", ",": r",\; ", "∈": r"\in ", ":": r"\,:\, ",
} | {sign: sign for sign in "+=<>"}  # fmt: skip
#: Opening bracket -> the closing one, and both in TeX.
_BRACKETS = {"(": (")", "(", ")"), "[": ("]", "[", "]"), "⌊": ("⌋", r"\lfloor", r"\rfloor")}
_FUNCTIONS = ("exp", "log", "max", "sin", "cos", "tanh")
_WORD = re.compile(r"[A-Za-zα-ωΦ]+")


def tex(formula: str) -> str:
    """The TeX of one formula. Raises ValueError for what it does not know."""
    reader = _Reader(formula)
    found = reader.row("")
    if reader.left:
        raise ValueError(f"{formula}: expected no {reader.left[0]!r} here")
    return found


class _Reader:
    """Reads from the left what it knows."""

    def __init__(self, text: str) -> None:
        self.left = text.strip()

    def row(self, closing: str) -> str:
        """Signs and fractions, up to a closing bracket."""
        parts = []
        while self.left and self.left[0] != closing:
            sign = _SIGNS.get(self.left[0])
            if sign is None:
                parts.append(self.fraction())
            else:
                self.skip()
                parts.append(sign)
        return re.sub(" +", " ", " ".join(parts))

    def fraction(self) -> str:
        """Neighbours, or neighbours over neighbours."""
        above = self.neighbours()
        while self.left.startswith("/"):
            self.skip()
            above = rf"\frac{{{_bare(above)}}}{{{_bare(self.neighbours())}}}"
        return above

    def neighbours(self) -> str:
        """Values and sums side by side, as far apart as they are in the docstring."""
        found, gap = "", False
        while self.left and self.left[0] not in "/)]}⌋" and self.left[0] not in _SIGNS:
            value = self.value()
            is_word = r"\text" in (value[:5], found[found.rfind("\\") :][:5])
            found += (r"\;" if is_word else r"\,") + value if gap else value
            gap = self.left[:1] == " "
            self.left = self.left.lstrip()
        if not found:
            raise ValueError(f"expected a value before {self.left[:10]!r}")
        return found

    def value(self) -> str:
        """A letter, a word, a number, a root, a sum or brackets, with index and power."""
        first = self.left[0]
        if first == "√":
            self.skip()
            return rf"\sqrt{{{_bare(self.value())}}}"
        if first in _BRACKETS:
            self.skip()
            closing, opens, closes = _BRACKETS[first]
            inner = self.row(closing)
            self.expect(closing)
            if first != "⌊" and re.fullmatch(r"\\frac\{[^{}]*(?:_\{\w+\})?\}\{\w+\}", inner):
                return inner
            large = "frac" in inner or "sum" in inner
            found = rf"\left{opens} {inner} \right{closes}" if large else f"{opens}{inner}{closes}"
        elif first == "Σ":
            self.left = self.left[1:]
            found = r"\sum"
        elif first == "∂":
            self.left = self.left[1:]
            return r"\partial " + self.value()
        elif number := re.match(r"\d+(\.\d+)?|½", self.left):
            self.left = self.left[number.end() :]
            found = number[0].replace("½", r"\tfrac12")
        elif name := re.match(r"[a-z]{2,}_[a-z]{4,}", self.left):
            self.left = self.left[name.end() :]
            found = rf"\text{{{name[0].replace('_', ' ')}}}"
        elif word := _WORD.match(self.left):
            self.left = self.left[word.end() :]
            found = self.word(word[0])
        else:
            raise ValueError(f"expected a value, got {self.left[:10]!r}")
        return found + self.scripts()

    def word(self, word: str) -> str:
        """A name: one letter, a gradient's d and its letter, or a word."""
        if self.left.startswith("\u0302"):
            self.left = self.left[1:]
            return rf"\hat{{{word}}}"
        letter = word if word == "distance" else word.removeprefix("d") or word
        before = "d" if letter != word else ""
        if word in _FUNCTIONS:
            return rf"\{word}"
        if len(letter) == 1:
            return before + _LETTERS.get(letter, letter)
        if self.left.startswith(("(", "_")):
            return rf"\mathrm{{{word}}}"
        return rf"{before}\text{{{letter}}}"

    def scripts(self) -> str:
        """Index and power."""
        found = ""
        while self.left:
            first = self.left[0]
            if first == "'":
                self.left, found = self.left[1:], found + "'"
            elif first in _RAISED or first in _LOWERED:
                table, mark = (_RAISED, "^") if first in _RAISED else (_LOWERED, "_")
                length = next((i for i, sign in enumerate(self.left) if sign not in table), len(self.left))
                found += f"{mark}{{{''.join(table[sign] for sign in self.left[:length])}}}"
                self.left = self.left[length:]
            elif first in "_^":
                self.left = self.left[1:]
                found += f"{first}{{{self.index()}}}"
            else:
                break
        return found

    def index(self) -> str:
        """What stands behind _ or ^: in brackets, or letters and numbers."""
        closing = {"(": ")", "{": "}"}.get(self.left[:1])
        if closing:
            self.skip()
            inner = self.row(closing)
            self.expect(closing)
            return inner
        plain = re.match(r"\w+?(?=[^\w]|[²ᵀ]|$)", self.left)
        if plain is None:
            raise ValueError(f"expected an index, got {self.left[:10]!r}")
        self.left = self.left[plain.end() :]
        return plain[0] if len(plain[0]) < 4 else rf"\text{{{plain[0]}}}"

    def skip(self) -> None:
        self.left = self.left[1:].lstrip()

    def expect(self, closing: str) -> None:
        if not self.left.startswith(closing):
            raise ValueError(f"expected {closing}, got {self.left[:10]!r}")
        self.left = self.left[1:]


def _bare(value: str) -> str:
    """Without brackets around all of it, which a bar or a root makes superfluous."""
    for opening, closing in ((r"\left( ", r" \right)"), ("(", ")")):
        inner = value[len(opening) : -len(closing)]
        depths = accumulate((each == "(") - (each == ")") for each in inner)
        if value.startswith(opening) and value.endswith(closing) and min(depths, default=0) >= 0:
            return inner
    return value
