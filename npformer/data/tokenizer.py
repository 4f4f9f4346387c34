"""A tokenizer splits text into the pieces of a vocabulary, and joins pieces to text.

    Characters   every character is a piece              decode(encode(text)) = text
    Words        text between white space                … = text, with white space as single spaces
    WordPiece    parts of words (see ``wordpiece``)      … the same
    SpelledWords words with their space, or characters   … = text (see ``spelled_words``)

Text without pieces in the vocabulary becomes [UNK], and decoding does not restore it; ``coverage``
counts such text. If the vocabulary has no [UNK], it raises TokenError. No text is encoded as a special piece:
the word "[CLS]" in a text is unknown; the special piece's id is vocabulary.id_of("[CLS]").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Self

from npformer.data.coverage import Coverage
from npformer.data.vocabulary import LINE_FEED, SPECIAL, UNKNOWN, Vocabulary
from npformer.errors import TokenError, whole_number

#: Strings that text may contain but that cannot be pieces of text.
RESERVED = frozenset((*SPECIAL, LINE_FEED))


class Tokenizer:
    """Text to the pieces of ``vocabulary``, their ids, and back."""

    glue: ClassVar[str] = " "  #: what stands between two units of a text

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.vocabulary):,} pieces>"

    def units(self, text: str) -> Sequence[str]:
        """The units that a window of a text may not split; joined by ``glue``, they are the text."""
        return text.split()

    def _parts(self, text: str) -> Sequence[str]:
        """The parts of a text that are known or unknown as a whole."""
        return self.units(text)

    def _pieces(self, part: str) -> list[str] | None:
        """The pieces of a part; None if the vocabulary lacks them."""
        return [part] if part in self.vocabulary.text_pieces else None

    def join(self, pieces: Iterable[str]) -> str:
        """The text of pieces."""
        return self.glue.join(pieces)

    def tokenize(self, text: str) -> list[str]:
        """The pieces of text, with [UNK] for unknown parts. Raises TokenError if the vocabulary has no [UNK]."""
        pieces = []
        for part in self._parts(text):
            known = self._pieces(part)
            if known is None and UNKNOWN not in self.vocabulary.pieces:
                raise TokenError(
                    f"{part!r} in {text[:60]!r} has no pieces in the vocabulary, nor has it {UNKNOWN}; "
                    f"remove the word, or build the vocabulary with {UNKNOWN} or from a text that has the word"
                )
            pieces += [UNKNOWN] if known is None else known
        return pieces

    def encode(self, text: str) -> list[int]:
        """The ids of ``tokenize(text)``."""
        return [self.vocabulary.id_of(piece) for piece in self.tokenize(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids up to the first [EOS], without special pieces except [UNK]. Raises TokenError."""
        return self.join(self.vocabulary.pieces_of(ids))

    def coverage(self, texts: Iterable[str]) -> Coverage:
        """How many characters (or words) of texts have pieces, and which do not."""
        parts = Counter(part for text in as_texts(texts) for part in self._parts(text))
        missing = {part: count for part, count in parts.items() if self._pieces(part) is None}
        return Coverage(parts.total(), Counter(missing))


class Characters(Tokenizer):
    """Every character (code point) is a piece. Text encoded without [UNK] decodes to itself."""

    glue = ""

    def units(self, text: str) -> Sequence[str]:
        """The characters."""
        return text

    @classmethod
    def learn(cls, texts: Iterable[str], *, special: Sequence[str] = SPECIAL) -> Self:
        """A tokenizer with all characters of texts, by code point."""
        return cls(Vocabulary.from_characters(texts, special))

    def encode(self, text: str) -> list[int]:
        """The ids of the characters of text."""
        try:
            return [self.vocabulary.ids[character] for character in text]
        except KeyError:
            return super().encode(text)


class Words(Tokenizer):
    """Every word is a piece: text between white space, punctuation included.

    What is encoded without [UNK] decodes to itself with its white space as single spaces.
    """

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        special: Sequence[str] = SPECIAL,
    ) -> Self:
        """A tokenizer with the words seen at least min_count times, most frequent first (ties by code point).

        max_size bounds the vocabulary, special pieces included. Raises ConfigError for bounds out of range.
        """
        whole_number("min_count", min_count, at_least=1)
        room = None if max_size is None else whole_number("max_size", max_size, at_least=len(special)) - len(special)
        counts = [(count, word) for word, count in count_words(texts, cls.split).items() if word not in RESERVED]
        frequent = sorted((-count, word) for count, word in counts if count >= min_count)
        return cls(Vocabulary((*special, *(word for _, word in frequent[:room]))))

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """The words of a text."""
        return text.split()

    def _parts(self, text: str) -> Sequence[str]:
        return self.split(text)


def count_words(texts: Iterable[str], split: Callable[[str], Sequence[str]] = str.split) -> Counter[str]:
    """How often each word occurs in a text, or in several."""
    return Counter(word for text in as_texts(texts) for word in split(text))


def as_texts(texts: Iterable[str]) -> Iterable[str]:
    """Texts as an iterable; a single str is one text, not an iterable of characters."""
    return [texts] if isinstance(texts, str) else texts
