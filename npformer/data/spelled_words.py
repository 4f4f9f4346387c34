"""Words of any text, line breaks included: frequent words are pieces, the others are spelled in characters.

    "The cat, the Möwe."  →  The| cat|,| the| |M|ö|w|e|.        decode(encode(text)) = text

A word is a run of letters (with their marks), of digits, or of other signs, together with one space before it. Any
other white space is a word of one character. So no text of known characters is unknown, and all of it is restored.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Self

from npformer.data.tokenizer import Tokenizer
from npformer.data.vocabulary import SPECIAL, Vocabulary
from npformer.errors import ConfigError, whole_number

_WORD = re.compile(r" ?(?:a+|1+|\.+)|[ _]")  # in the letters of _Kinds


class SpelledWords(Tokenizer):
    """Frequent words are pieces; other words are spelled."""

    glue = ""

    @classmethod
    def learn(cls, text: str, size: int, *, alphabet: str = "", special: Sequence[str] = SPECIAL) -> Self:
        """A tokenizer with at most size pieces: special ones, all characters, then words by frequency (ties by name).

        alphabet: further characters. A word that occurs once is spelled. Raises ConfigError if size is too small for
        the characters.
        """
        characters = sorted({*text, *alphabet})
        least = len(special) + len(characters)
        if whole_number("max_pieces", size, at_least=1) < least:
            raise ConfigError(
                f"max_pieces: expected at least {least}, for {len(special)} special pieces and {len(characters)} "
                f"characters, got {size}; raise it, or use the tokenizer characters"
            )
        counts = Counter(word for word in words_of(text) if len(word) > 1)
        frequent = sorted((-count, word) for word, count in counts.items() if count > 1)
        return cls(Vocabulary((*special, *characters, *(word for _, word in frequent[: size - least]))))

    def units(self, text: str) -> Sequence[str]:
        """The words."""
        return words_of(text)

    def _parts(self, text: str) -> Sequence[str]:
        known = self.vocabulary.text_pieces
        return [part for word in words_of(text) for part in ([word] if word in known else word)]


def words_of(text: str) -> list[str]:
    """The words of a text; joined, they are the text."""
    return [text[match.start() : match.end()] for match in _WORD.finditer(text.translate(_KINDS))]


class _Kinds(dict[int, str]):
    """Code point -> a (letter or mark), 1 (digit), space, _ (other white space) or . (any other sign)."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)[0]
        self[code] = (
            (character if character == " " else "_")
            if character.isspace()
            else {"L": "a", "M": "a", "N": "1"}.get(kind, ".")
        )
        return self[code]


_KINDS = _Kinds()
