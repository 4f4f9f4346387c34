"""Reads text files, whole or as lines that end only in a line feed, in UTF-8.

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


class Text(NamedTuple):
    """The text of a file and the SHA-256 (64 hex digits) of its bytes."""

    text: str
    digest: str


#: How files of other formats begin that people take for text.
_FORMATS = {
    codecs.BOM_UTF16_LE: "text in UTF-16",
    codecs.BOM_UTF16_BE: "text in UTF-16",
    b"%PDF-": "a PDF file",
    b"{\\rtf": "an RTF file",
    b"PK\3\4": "a ZIP archive (such as docx, odt or epub)",
    b"\x1f\x8b": "a file compressed by gzip",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}


def read_lines(path: str | os.PathLike[str]) -> TextFile:
    """Read a UTF-8 file; a byte order mark and the last line feed are optional.

    Raises DataError if the file is missing, unreadable, empty, or not UTF-8 (with the line), or if most of its lines
    end in \\r alone.
    """
    content = _content(path)
    lines = _decode(path, content).split("\n")
    if lines[-1] == "":
        lines.pop()
    return TextFile(lines, hashlib.sha256(content).hexdigest())


def read_text(path: str | os.PathLike[str]) -> Text:
    """Read a UTF-8 text file; a byte order mark is left out, and \\r\\n becomes \\n.

    Raises DataError if the file is missing, unreadable, empty, white space alone, no text, or not UTF-8 (with the
    line), or if most of its lines end in \\r alone.
    """
    content = _content(path)
    if kind := _no_text(content):
        raise DataError(f"{path}: expected a text file, got {kind}; save it as plain text in UTF-8")
    text = _decode(path, content).replace("\r\n", "\n")
    if not text.strip():
        raise DataError(f"{path}: expected text, got {len(text):,} characters of white space alone")
    return Text(text, hashlib.sha256(content).hexdigest())


def _content(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file. Raises DataError if it is missing, unreadable or empty."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: expected a readable UTF-8 text file, got: {error.strerror or error}; check the path"
        ) from error
    if not content.removeprefix(codecs.BOM_UTF8):
        raise DataError(f"{path}: expected at least one line, got an empty file")
    return content


def _no_text(content: bytes) -> str | None:
    """What a file holds instead of text, as far as its bytes tell; None if they may be text."""
    for start, kind in _FORMATS.items():
        if content.startswith(start):
            return kind
    zero = content.find(b"\0")
    return None if zero < 0 else f"a binary file (a byte of 0 at position {zero:,})"


def _decode(path: str | os.PathLike[str], content: bytes) -> str:
    body = content.removeprefix(codecs.BOM_UTF8)
    feeds, returns = body.count(b"\n"), body.count(b"\r") - body.count(b"\r\n")
    if returns > feeds:
        raise DataError(
            f"{path}: expected lines that end in \\n or \\r\\n, got {returns:,} carriage returns alone (CR, the line "
            f"end of old Macs) and {feeds:,} line feeds; make them line feeds: tr '\\r' '\\n' < OLD > NEW"
        )
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: expected UTF-8, got byte 0x{body[error.start]:02x} "
            f"({error.reason}); save the file as UTF-8"
        ) from error
