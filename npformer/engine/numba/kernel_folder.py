"""The folder of compiled kernels. It belongs to the user, and nobody else may write to it.

Reading code means running it, so a folder that others can write to is not used. If the usual folder cannot be used,
kernels go to a temporary folder of this process, so that several processes can still share the compiling.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

NAME = "npformer"
VARIABLE = "NUMBA_CACHE_DIR"  # the folder's own folder, if it is not to be the user's cache


class CacheFolders(NamedTuple):
    """The folders to read from, and the one to write to."""

    folders: tuple[Path, ...]  # to look into
    to_write: Path | None


@cache
def place() -> CacheFolders:
    """The place for this process; one message if it is not the usual folder."""
    folder, folders = usual_folder(), list[Path]()
    try:
        _make(folder)
        folders.append(folder)
        tempfile.TemporaryFile(dir=folder).close()
        return CacheFolders((folder,), folder)
    except OSError as error:
        say_once(
            f"{folder}: expected a folder for compiled kernels that is yours alone to write, got: {error.strerror}; "
            f"they last as long as this process. Set that right, or set {VARIABLE} to another folder"
        )
    passing = _passing_folder()
    return CacheFolders((*folders, passing) if passing is not None else tuple(folders), passing)


def usual_folder() -> Path:
    """The usual folder: in $NUMBA_CACHE_DIR, or in the user's cache."""
    parent = os.environ.get(VARIABLE) or os.environ.get("XDG_CACHE_HOME")
    return Path(parent or os.path.expanduser("~/.cache")).absolute() / NAME


def expect_own(status: os.stat_result) -> None:
    """Raise PermissionError unless a file or folder belongs to the user and nobody else may write to it."""
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise PermissionError(0, "it is somebody else's")
    if os.name == "posix" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(0, "others can write to it")


def _make(folder: Path) -> None:
    """Create the folder if it is missing. Raises OSError if that fails or if it is not the user's own."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(0, "it is no folder")
    expect_own(status)


def _passing_folder() -> Path | None:
    """A temporary folder of this process; None if none can be created."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="npformer-kernels-"))
        (folder / NAME).mkdir(mode=0o700)
    except OSError:
        return None
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return folder / NAME


@cache
def say_once(text: str) -> None:
    """Print a message about a problem that was worked around, once."""
    print(f"npformer: {text}", file=sys.stderr, flush=True)
