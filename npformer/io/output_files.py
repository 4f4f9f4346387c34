"""Places of files that a command writes: looked at before the work begins, written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npformer.errors import OutputError
from npformer.io.atomic_files import describe, open_regular, write_atomically

#: A file that holds these bytes near its beginning, or a picture's at its very beginning, may be written again.
OWN_JSON, OWN_PAGE = b'"format":"npformer-', b'<meta name="generator" content="npformer'
OWN_PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg" data-generator="npformer"'
BEGINNING = 4096


@contextmanager
def _name_place(path: Path, option: str) -> Iterator[None]:
    """Turn an OSError into an OutputError that names the place."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{option}: expected to write '{path}', got: {describe(error)}; choose another place"
        ) from error


def expect_place(path: Path, option: str, mark: bytes) -> None:
    """Raise OutputError unless a file may be written at path: to a free name, or in the place of npformer's own file.

    mark: the bytes that tell such a file, as OWN_JSON.
    """
    with _name_place(path, option):
        if not path.name or path.is_dir():
            raise OutputError(f"{option}: expected the name of a file, got the folder '{path}'")
        if not path.parent.is_dir():
            raise OutputError(f"{option}: expected an existing folder, got '{path.parent}'; create it first")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise OutputError(
                f"{option}: expected a folder that can be written to, got '{path.parent}'; choose another"
            )
        if os.path.lexists(path) and not _is_own(path, mark):
            raise OutputError(f"{option}: expected a free name, but '{path}' is there; choose another, or move it away")


def write_file(path: Path, option: str, data: bytes) -> None:
    """Write data to path, replacing npformer's own file there. Raises OutputError; an old file is then unchanged."""
    with _name_place(path, option):
        write_atomically(path, data)


def _is_own(path: Path, mark: bytes) -> bool:
    """Whether npformer wrote the file. A link is not followed, and a pipe is not opened."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    try:
        with open(open_regular(path, os.O_RDONLY), "rb") as file:
            return mark in file.read(len(mark) if mark == OWN_PICTURE else BEGINNING)
    except OSError:
        return False
