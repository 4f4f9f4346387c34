"""Reads text files as UTF-8 lines that end only in a line feed.

Python's own line splitting would also break a line at U+2028, U+0085 or a vertical
tab, which are ordinary characters here: a vocabulary may hold each of them.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from npformer.errors import DataError


class TextFile(NamedTuple):
    """The lines of a file and the SHA-256 (64 hex digits) of its bytes."""

    lines: list[str]
    digest: str


def read_lines(path: str | os.PathLike[str]) -> TextFile:
    """Read a UTF-8 file; a byte order mark and the last line feed are optional.

    Raises DataError if the file is missing, unreadable, empty, or not UTF-8 (with the line).
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: expected a readable UTF-8 text file, got: {error.strerror or error}; check the path"
        ) from error
    body = content.removeprefix(codecs.BOM_UTF8)
    if not body:
        raise DataError(f"{path}: expected at least one line, got an empty file")
    lines = _decode(path, body).split("\n")
    if lines[-1] == "":
        lines.pop()
    return TextFile(lines, hashlib.sha256(content).hexdigest())


def _decode(path: str | os.PathLike[str], body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: expected UTF-8, got byte 0x{body[error.start]:02x} "
            f"({error.reason}); save the file as UTF-8"
        ) from error
