"""A vocabulary gives every character an id: the number of its line in a text file.

The first three lines are the special pieces: [PAD] fills up short rows, [BOS] is what
a decoder sees before its first character, [EOS] ends every sequence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from io import BufferedWriter
from operator import index
from pathlib import Path

from npformer.data.textfile import read_lines
from npformer.errors import ConfigError, DataError, OutputError, TokenError

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
_SPECIAL = ("[PAD]", "[BOS]", "[EOS]")


@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of their ids, the special ones first.

    Raises ConfigError if a special piece is missing, or a piece is empty, there twice, or
    cannot be a line of a UTF-8 file.
    """

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        if flaw := _first_flaw(self.pieces):
            raise ConfigError(f"vocabulary, piece {flaw[0]}: {flaw[1]}")

    @classmethod
    def from_characters(cls, characters: Iterable[str]) -> Vocabulary:
        """The special pieces, then every distinct character of a text (or of many) by code point."""
        return cls((*_SPECIAL, *sorted(set("".join(characters)))))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read one piece per line. Raises DataError naming the file, the line and what is wrong there."""
        pieces = tuple(read_lines(path).lines)
        if flaw := _first_flaw(pieces):
            raise DataError(f"{path}, line {flaw[0] + 1}: {flaw[1]}")
        return cls(pieces)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one piece per line, in UTF-8. Raises OutputError if the file exists: none is overwritten."""
        content = "".join(f"{piece}\n" for piece in self.pieces).encode()
        try:
            with Path(path).open("xb") as file:
                _write_all_or_remove(file, content)
        except FileExistsError as error:
            raise OutputError(f"{path}: expected a new file, but it exists; choose another path") from error
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error

    def encode(self, text: str) -> list[int]:
        """The ids of the characters of `text`. Raises TokenError at the first character without one."""
        try:
            return [self._ids[character] for character in text]
        except KeyError as error:
            raise TokenError(self._unknown(text, error.args[0])) from None

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids` up to the first [EOS], special pieces left out.

        Raises TokenError if an id before that [EOS] is outside 0 .. len(vocabulary) - 1.
        """
        text: list[str] = []
        for position, token in enumerate(map(index, ids)):
            if token == EOS_ID:
                break
            if not 0 <= token < len(self.pieces):
                raise TokenError(
                    f"token id {token} at position {position}: expected 0 to {len(self.pieces) - 1}; "
                    "were these ids made with another vocabulary?"
                )
            if token >= len(_SPECIAL):
                text.append(self.pieces[token])
        return "".join(text)

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    def _unknown(self, text: str, character: str) -> str:
        held = "".join(piece for piece in self.pieces[len(_SPECIAL) :] if len(piece) == 1)
        shown = repr(held) if len(held) <= 100 else f"{held[:100]!r} and {len(held) - 100} more"
        return (
            f"character {character!r} (U+{ord(character):04X}) at position {text.index(character)} "
            f"of {text[:60]!r} is not in the vocabulary, which holds {len(held)} characters: {shown}; "
            "remove it, or build the vocabulary from a text that has it"
        )


def _write_all_or_remove(file: BufferedWriter, content: bytes) -> None:
    try:
        file.write(content)
        file.flush()
    except OSError:
        Path(file.name).unlink()  # our own new file, cut short: nobody may load half a vocabulary
        raise


def _first_flaw(pieces: tuple[str, ...]) -> tuple[int, str] | None:
    """The id of the first piece that may not stand there, and why; None if all is well."""
    for number, special in enumerate(_SPECIAL):
        found = pieces[number] if number < len(pieces) else "nothing"
        if found != special:
            hint = "; end lines with \\n alone, not \\r\\n" if found == f"{special}\r" else ""
            return number, f"expected the special piece {special!r}, got {found!r}{hint}"
    first: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if not piece:
            return number, "expected a piece, got an empty line; delete it"
        if piece in first:
            return number, f"{piece!r} already has id {first[piece]}; each piece may appear once"
        if "\n" in piece or any("\ud800" <= character <= "\udfff" for character in piece):
            return number, f"{piece!r} cannot be one line of UTF-8 text (a line feed or a lone surrogate)"
        first[piece] = number
    return None
