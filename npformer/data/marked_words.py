"""Words and marks: a run of letters is a piece, so is a run of digits, and so is every other character.

    "soixante-dix, 5.3.87"  →  soixante - dix , 5 . 3 . 87

Joined pieces have a space between them, but no space before , . and : and no space around - and '. So ordinary
text is restored exactly; "5. 3." is restored, "5.3." is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from npformer.data.tokenizer import Words

_PART = re.compile(r"\d+|[^\W\d_]+|[^\w\s]|_")


class MarkedWords(Words):
    """Words of ordinary text: a comma is not part of the word before it."""

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """The words and marks of a text."""
        return _PART.findall(text)

    def join(self, pieces: Iterable[str]) -> str:
        """The text of pieces."""
        return re.sub(r" ?([-']) ?", r"\1", re.sub(r" ([,.:])", r"\1", " ".join(pieces)))


def spans(text: str) -> list[tuple[int, int]]:
    """The start and end of each piece in a text."""
    return [match.span() for match in _PART.finditer(text)]
