"""Keeps data that is slow to make in the user's cache folder, and makes it again if it is not there.

The folder is $NPFORMER_CACHE, or npformer in $XDG_CACHE_HOME, or in ~/.cache. The first line of a file is the
SHA-256 of the others: a file that was cut short or changed is made again. It appears by one rename, so two
processes do not disturb each other. If the folder is not writable, nothing is kept: that costs time but is no error.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from npformer.io.atomic_files import write_atomically


def cache_folder() -> Path:
    """The cache folder, which need not exist. Raises RuntimeError if there is no home folder."""
    if chosen := os.environ.get("NPFORMER_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "npformer"


def cached_lines(name: str, make: Callable[[], Iterable[str]]) -> list[str]:
    """The lines of make(), read from the file of that name if it is intact.

    The name must include everything that the lines depend on. No line may contain a line feed.
    """
    path = None
    with suppress(RuntimeError):
        path = cache_folder() / name
    if path is not None and (lines := _read(path)) is not None:
        return lines
    lines = list(make())
    if path is not None:
        _write(path, lines)
    return lines


def digest(lines: Iterable[str]) -> str:
    """The SHA-256, 64 hex digits, of lines that each end in a line feed."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def _read(path: Path) -> list[str] | None:
    """The lines, or None if the file is missing, unreadable or changed."""
    try:
        first, *lines, last = path.read_bytes().decode().split("\n")
    except (OSError, ValueError):
        return None
    return lines if last == "" and first == digest(lines) else None


def _write(path: Path, lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in [digest(lines), *lines])
    with suppress(OSError):  # read-only, full, or not a folder: the lines are used anyway
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.encode())
