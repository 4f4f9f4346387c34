"""Words and marks: a run of letters is a piece, a run of digits, and every other sign by itself.

    "soixante-dix, 5.3.87"  →  soixante - dix , 5 . 3 . 87

Joined again, pieces have a space between them, but none before , . and : and none around - and '. So ordinary
text comes back as it was; "5. 3." comes back the same, "5.3." does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Self

from npformer.data.tokenizer import Words, as_texts
from npformer.data.vocabulary import SPECIAL

_PART = re.compile(r"\d+|[^\W\d_]+|[^\w\s]|_")


class MarkedWords(Words):
    """Words as in any text: a comma is no part of the word before it."""

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        special: Sequence[str] = SPECIAL,
    ) -> Self:
        """As Words.learn, of words and marks."""
        apart = (" ".join(_PART.findall(text)) for text in as_texts(texts))
        return super().learn(apart, min_count=min_count, max_size=max_size, special=special)

    def _parts(self, text: str) -> Sequence[str]:
        return _PART.findall(text)

    def join(self, pieces: Iterable[str]) -> str:
        """The text of pieces."""
        return re.sub(r" ?([-']) ?", r"\1", re.sub(r" ([,.:])", r"\1", " ".join(pieces)))


def spans(text: str) -> list[tuple[int, int]]:
    """Where each piece of a text begins and ends."""
    return [match.span() for match in _PART.finditer(text)]
