"""The folder in which compiled kernels are kept: the user's own, and closed to the writing of others.

To read code is to run it, so a folder that somebody else can write to is not read. What is compiled where the usual
folder cannot be used is kept in one that ends with the process, so that processes can still share the work.
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


class Place(NamedTuple):
    """Where kernels are kept."""

    folders: tuple[Path, ...]  # to look into
    to_write: Path | None


@cache
def place() -> Place:
    """Where this process keeps kernels; says so once if that is not the usual folder."""
    folder, folders = usual_folder(), list[Path]()
    try:
        _make(folder)
        folders.append(folder)
        tempfile.TemporaryFile(dir=folder).close()
        return Place((folder,), folder)
    except OSError as error:
        say_once(
            f"{folder}: expected a folder for compiled kernels that is yours alone to write, got: {error.strerror}; "
            f"they last as long as this process. Set that right, or set {VARIABLE} to another folder"
        )
    passing = _passing_folder()
    return Place((*folders, passing) if passing is not None else tuple(folders), passing)


def usual_folder() -> Path:
    """Where kernels are kept if nothing is in the way: in $NUMBA_CACHE_DIR, or the user's cache."""
    given = os.environ.get(VARIABLE) or os.environ.get("XDG_CACHE_HOME")
    return Path(given or os.path.expanduser("~/.cache")).absolute() / NAME


def expect_own(found: os.stat_result) -> None:
    """Raise PermissionError unless a file or folder is the user's, and nobody else's to write."""
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise PermissionError(0, "it is somebody else's")
    if os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(0, "others can write to it")


def _make(folder: Path) -> None:
    """Make the folder if it is missing. Raises OSError if it cannot be, or is not the user's own."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "it is no folder")
    expect_own(found)


def _passing_folder() -> Path | None:
    """A folder of this process; None if there is nowhere to make one."""
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
    """Say something that has been worked around."""
    print(f"npformer: {text}", file=sys.stderr, flush=True)
