"""A vocabulary gives every piece of text an id: its line number in a text file.

Some pieces are special: they are not text, and no text is ever encoded as one of them, except [UNK].

    [PAD]  pads short rows: id 0               [UNK]   replaces text that the vocabulary lacks
    [BOS]  a decoder's first input: id 1       [CLS]   stands before a text to classify
    [EOS]  ends every sequence: id 2           [SEP]   stands between two texts
                                               [MASK]  hides a token to predict

Every vocabulary has [PAD]; the others depend on its use. Pieces with an id
above have this id in every vocabulary; the others may be on any line. A line feed cannot be
a line of a file: the line [LF] stands for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path

from npformer.data.textfile import read_lines
from npformer.errors import ConfigError, DataError, OutputError, TokenError
from npformer.io.atomic_files import write_synced

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
SEQUENCE = ("[PAD]", "[BOS]", "[EOS]")  # needed by an encoder-decoder
UNKNOWN = "[UNK]"
SPECIAL = (*SEQUENCE, UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
LINE_FEED = "[LF]"
_SURROGATE = re.compile("[\ud800-\udfff]")  # the only characters that UTF-8 lacks


@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of their ids, [PAD] first.

    Raises ConfigError if [PAD], [BOS] or [EOS] does not have its fixed id, or if a piece is empty, occurs twice,
    or cannot be a line of a UTF-8 file.
    """

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        if flaw := _first_flaw(self.pieces):
            raise ConfigError(f"vocabulary, piece {flaw[0]}: {flaw[1]}")

    @classmethod
    def from_characters(cls, texts: Iterable[str], special: Sequence[str] = SEQUENCE) -> Vocabulary:
        """The special pieces, then every distinct character of one or several texts, by code point."""
        return cls((*special, *sorted(set("".join(texts)))))

    @classmethod
    def load(cls, path: str | os.PathLike[str], special: Iterable[str] = SEQUENCE) -> Vocabulary:
        """Read one piece per line; special: the special pieces that must be there.

        Raises DataError with the file, the line, and the error.
        """
        pieces = tuple("\n" if line == LINE_FEED else line for line in read_lines(path).lines)
        if flaw := _first_flaw(pieces, special):
            raise DataError(f"{path}, line {flaw[0] + 1}: {flaw[1]}")
        return cls(pieces)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one piece per line, in UTF-8. Raises OutputError if the file exists; it is not overwritten."""
        try:
            write_synced(Path(path), self.content())
        except FileExistsError as error:
            raise OutputError(f"{path}: expected a new file, but it exists; choose another path") from error
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error

    def content(self) -> bytes:
        """The file's text, which ``save`` writes and ``load`` reads."""
        lines = (LINE_FEED if piece == "\n" else piece for piece in self.pieces)
        return "".join(f"{line}\n" for line in lines).encode()

    def id_of(self, piece: str) -> int:
        """The id of a piece, special or not. Raises TokenError if there is none."""
        try:
            return self.ids[piece]
        except KeyError:
            special = ", ".join(self.pieces[token] for token in sorted(self.special_ids))
            raise TokenError(
                f"{piece!r} is not in the vocabulary of {len(self.pieces)} pieces, of which {special} are special; "
                "build it with this piece, or load the one that has it"
            ) from None

    def pieces_of(self, ids: Iterable[int]) -> list[str]:
        """The pieces of `ids` up to the first [EOS], without special pieces except [UNK].

        Raises TokenError if an id before that [EOS] is outside 0 .. len(vocabulary) - 1.
        """
        end, left_out = self.ids.get("[EOS]"), self.special_ids - {self.ids.get(UNKNOWN)}
        pieces = []
        for position, token in enumerate(map(index, ids)):
            if token == end:
                break
            if not 0 <= token < len(self.pieces):
                raise TokenError(
                    f"token id {token} at position {position}: expected 0 to {len(self.pieces) - 1}; "
                    "were these ids made with another vocabulary?"
                )
            if token not in left_out:
                pieces.append(self.pieces[token])
        return pieces

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def text_pieces(self) -> frozenset[str]:
        """All pieces that are not special."""
        return frozenset(self.pieces) - set(SPECIAL)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of the vocabulary's special pieces."""
        return frozenset(self.ids[piece] for piece in SPECIAL if piece in self.ids)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Piece -> id."""
        return {piece: number for number, piece in enumerate(self.pieces)}


def _first_flaw(pieces: tuple[str, ...], required: Iterable[str] = ()) -> tuple[int, str] | None:
    """The id of the first invalid piece, and the reason; None if all are valid."""
    required = tuple(required)
    for number, special in enumerate(SEQUENCE):
        piece = pieces[number] if number < len(pieces) else "nothing"
        needed = special == "[PAD]" or special in required or special in pieces
        if needed and piece != special:
            hint = "; end lines with \\n alone, not \\r\\n" if piece == f"{special}\r" else ""
            return number, f"expected the special piece {special!r}, got {piece[:60]!r}{hint}"
    first: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if piece in first:
            return number, f"{piece[:60]!r} already has id {first[piece]}; each piece may appear once"
        if flaw := _piece_flaw(piece):
            return number, flaw
        first[piece] = number
    if missing := [piece for piece in required if piece not in first]:
        hint = "; end lines with \\n alone, not \\r\\n" if f"{missing[0]}\r" in first else "; add it as a line"
        return len(pieces), f"expected the special piece {missing[0]!r} before the end, got none{hint}"
    return None


def _piece_flaw(piece: str) -> str | None:
    """Why a piece cannot be a line of a file, or None."""
    if not piece:
        return "expected a piece, got an empty line; delete it"
    if piece == LINE_FEED:
        return f"{LINE_FEED!r} is how a file writes the line feed; a piece of that name could not be told from it"
    if ("\n" in piece and piece != "\n") or _SURROGATE.search(piece):
        return f"{piece[:60]!r} cannot be one line of UTF-8 text (a line feed among others, or a lone surrogate)"
    return None
