"""Pretrained word vectors from a text file: a word and its numbers on each line.

    word2vec, fastText (.vec)    first a line with the number of words and the width C
    GloVe                        no such line

One space separates fields. A word may contain spaces (GloVe's do), so the numbers are counted from the
end of the line. Lines are read one by one and only wanted ones are kept, so a file of any size needs no memory
beyond the table. Words are compared as UTF-8 bytes, so a word that is not UTF-8 matches nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npformer.data.coverage import Coverage
from npformer.data.vocabulary import Vocabulary
from npformer.errors import DataError

MOST_WIDTH = 1 << 16  # the widest vector; real ones are far smaller
LONGEST = 1 << 24  # bytes; no line of a word and its numbers is longer
_MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark
_NUMERIC = b"0123456789+-.eE "


def pretrained_width(path: str | os.PathLike[str]) -> int:
    """The width C of the vectors in a file, from the first vector and from a header line, if there is one.

    Raises DataError if the two differ, or C is above 65,536.
    """
    lines = _lines(path)
    first = next(lines)
    header = _header(first)
    width = header[1] if header else first.count(b" ")
    if not 1 <= width <= MOST_WIDTH or (not header and _is_broken(first, width)):
        expected = f"a word and its numbers, or the number of words and the width, at most {MOST_WIDTH:,}"
        raise _broken(path, 1, expected, first)
    if header and _is_broken(second := next(lines, b""), width):
        raise _broken(path, 2, f"a word and {width} numbers, one space apart, as line 1 says", second)
    return width


def read_pretrained(
    path: str | os.PathLike[str], vocabulary: Vocabulary, table: npt.NDArray[np.floating[Any]]
) -> Coverage:
    """Write the vectors of the vocabulary's words into their rows of table (V, C); other rows do not change.

    If a word occurs twice, the first occurrence counts. Returns the pieces (without special ones) that were not in
    the file. Raises DataError if the file has another width, is cut short or unreadable, or has a broken line
    (with its number); table may already hold some vectors then.
    """
    width, got = table.shape[1], pretrained_width(path)
    if got != width:
        raise DataError(
            f"{path}, line 1: expected vectors of width C={width}, got {got}; "
            f"choose d_model={got}, or a file of vectors of width {width}"
        )
    wanted = {piece.encode(): vocabulary.id_of(piece) for piece in vocabulary.text_pieces}
    expected, number = None, 0
    for number, line in enumerate(_lines(path), start=1):
        if number == 1 and (expected := _header(line)):
            continue
        if _is_broken(line, width):
            raise _broken(path, number, f"a word and {width} numbers, one space apart", line)
        word, *numbers = line.rsplit(b" ", width)
        row = wanted.pop(word, None)
        if row is not None:
            table[row] = _vector(path, number, line, numbers, table.dtype)
    if expected and expected[0] != number - 1:
        raise DataError(
            f"{path}: expected {expected[0]} words, as line 1 says, got {number - 1}; the file may be cut short: "
            "fetch it again"
        )
    return Coverage(len(vocabulary.text_pieces), Counter(piece.decode() for piece in wanted))


def _lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The lines without their line ends, and without the trailing space that some programs write."""
    try:
        with Path(path).open("rb") as file:
            for number in count(1):
                line = file.readline(LONGEST + 1)
                if number == 1 and not (line := line.removeprefix(_MARK)):
                    raise DataError(f"{path}: expected word vectors as text, got an empty file")
                if not line:
                    return
                if len(line) > LONGEST:
                    raise _broken(path, number, f"a line of at most {LONGEST:,} bytes", line)
                yield line.rstrip(b" \r\n")
    except OSError as error:
        raise DataError(f"{path}: expected a readable file of word vectors, got: {error.strerror or error}") from error


def _header(line: bytes) -> tuple[int, ...] | None:
    """The number of words and the width, if the line consists of two whole numbers."""
    fields = line.split(b" ", 2)
    is_header = len(fields) == 2 and all(field.isdigit() and len(field) < 19 for field in fields)
    return tuple(map(int, fields)) if is_header else None


def _is_broken(line: bytes, width: int) -> bool:
    """Whether the line is not a word and the right count of numbers."""
    word, *numbers = line.rsplit(b" ", width)
    return len(numbers) != width or not word or bool(line[len(word) :].translate(None, _NUMERIC))


def _vector(
    path: str | os.PathLike[str], number: int, line: bytes, numbers: list[bytes], dtype: np.dtype[Any]
) -> npt.NDArray[np.floating[Any]]:
    """Numbers (C,) as dtype; DataError if a field is not a number, or is too large for dtype."""
    try:
        with np.errstate(over="ignore"):
            vector = np.array([float(field) for field in numbers]).astype(dtype)
    except ValueError:
        raise _broken(path, number, f"a word and {len(numbers)} numbers", line) from None
    if not np.all(np.isfinite(vector)):
        raise _broken(path, number, f"numbers that {dtype} can hold", line)
    return vector


def _broken(path: str | os.PathLike[str], number: int, expected: str, line: bytes) -> DataError:
    shown = line if len(line) <= 60 else line[:40] + b" ... " + line[-20:]
    fields = line.count(b" ") + 1 if line else 0
    return DataError(
        f"{path}, line {number}: expected {expected}, got {fields} fields: {shown.decode(errors='replace')!r}; "
        "is it a text file of word2vec, GloVe or fastText?"
    )
