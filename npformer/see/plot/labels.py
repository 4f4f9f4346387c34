"""Labels of tokens on an axis: visible and short.

A space, a line break or a lone combining mark would be invisible, so a sign replaces it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from npformer.io.printable import visible

_SIGNS = {" ": "␣", "\u00a0": "␣", "\t": "⇥", "\n": "↵", "\r": "↵"}
_LONGEST = 12

#: The width of a wide letter of DejaVu Sans, in units of the font size; and those of narrow signs.
_LETTER_EM = 0.62
_SIGN_EM = {"[": 0.4, "]": 0.4, "/": 0.35}


def token_label(token: str) -> str:
    """The token's label on an axis: at most 12 characters, all of them visible."""
    if token == "":
        return "∅"
    shown = _drawn(token)
    if unicodedata.category(shown[0]).startswith("M"):
        shown = "◌" + shown
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def one_line(text: str, longest: int) -> str:
    """The text as a heading of at most this many characters, on one line."""
    shown = _drawn(text, signs={name: sign for name, sign in _SIGNS.items() if name != " "})
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def label_width(label: str, font_size: float) -> float:
    """The approximate width of the label, in the unit of font_size."""
    letters = sum(1.0 if unicodedata.east_asian_width(c) in "WF" else _SIGN_EM.get(c, _LETTER_EM) for c in label)
    return letters * font_size


def _drawn(text: str, signs: Mapping[str, str] = _SIGNS) -> str:
    """The text with signs for spaces and line breaks; other invisible characters become their number or �."""
    return "".join(
        signs.get(c) or (c if c.isprintable() or unicodedata.category(c) == "Cf" else "\N{REPLACEMENT CHARACTER}")
        for c in visible(text, keep="".join(signs))
    )
