"""Atomic files and folders: complete or absent, even if the process dies or the disk fills up.

The pattern is always the same: write under a name that nobody reads (`.tmp-…`, in the same
folder, since a rename is atomic only inside one file system), make it durable with fsync,
rename it in one step to its final name, and fsync the folder, which stores the names.
A crash leaves the old content or the new one, and at worst a `.tmp-` leftover. `seal` guards a
file against later damage: sealed JSON shows whether any byte of it was lost or changed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

#: The prefix of unfinished files and folders. Readers skip names that begin with it.
TEMPORARY = ".tmp-"

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full: your quota on it is used up",
    errno.EFBIG: "the disk is full for this file: it would pass the size limit (see `ulimit -f`)",
}
#: The errors of file systems that cannot fsync a folder. These offer nothing better.
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP}
_NOT_REGULAR = "what is there is no regular file, but a link, a pipe or a device; move it away"
_FLOAT = "$float"


def disk_is_full(error: OSError) -> bool:
    """True if the system refused to store more bytes: ENOSPC, EDQUOT or EFBIG."""
    return error.errno in _FULL


def describe(error: OSError) -> str:
    """The error in words that fit into the middle of a message."""
    return _FULL.get(error.errno or 0) or error.strerror or str(error)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the content of the file path by data (bytes), or leave the file unchanged.

    Raises OSError if the folder is missing or not writable or the disk is full; no temporary
    file is left then, and path is the old file (or, if only the last fsync failed, the new one).
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, "a file needs a name", str(path))
    temporary = _temporary(path)
    try:
        write_synced(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def commit_folder(path: Path, files: Mapping[str, bytes], verify: Callable[[Path], None]) -> None:
    """Create the folder path, which must not exist yet, with all its files by one rename.

    `verify` gets the temporary folder once it is written, and cancels the commit by raising an error.
    Raises OSError, or what verify raises; no temporary folder is left then.
    """
    temporary = _temporary(path)
    try:
        os.mkdir(temporary)
        for name, data in files.items():
            write_synced(temporary / name, data)
        sync_folder(temporary)
        verify(temporary)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder. A kill in between never leaves half of it under its name. Raises OSError."""
    temporary = _temporary(path)
    os.rename(path, temporary)
    sync_folder(path.parent)
    shutil.rmtree(temporary, ignore_errors=True)  # what stays is a leftover, removed at the next chance


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left behind. Only for a folder that no other process writes to."""
    for leftover in folder.glob(f"{TEMPORARY}*"):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            with suppress(OSError):
                leftover.unlink()


def make_folder(path: Path) -> None:
    """Make the folder path and its missing parents, and make their names durable. Raises OSError."""
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not path.is_dir():  # another process may have made it in the meantime
            raise
    sync_folder(path.parent)


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file, or create it if flags say so. Returns its descriptor.

    Links are not followed, and opening a pipe does not block. Raises OSError, with a message for the user, unless path
    is a regular file.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link; a pipe that nobody reads, or a device
            raise
        raise OSError(error.errno, _NOT_REGULAR, str(path)) from None
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, _NOT_REGULAR, str(path))


def read_regular(path: Path) -> bytes:
    """The bytes of a file that ``open_regular`` opens. Raises OSError."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_synced(path: Path, data: bytes) -> None:
    """Create the file path, which must not exist, and return once data is on the disk.

    Raises OSError; then there is no such file, nor half of one.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of data. The system may accept it in parts, and fail at a later part. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Make the names in the folder durable, where the file system can. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def seal(document: Mapping[str, Any]) -> bytes:
    """The document as JSON. Its last entry is the SHA-256 of all the others.

    Takes None, bool, int, str, float, lists, tuples (which come back as lists) and dicts with text
    keys. A float that is not finite is written {"$float": "nan"} (or "inf", "-inf"). Raises
    ValueError, beginning with the place inside the document, for anything else.
    """
    plain = _plain(document, "")
    digest = hashlib.sha256(json.dumps(plain).encode()).hexdigest()
    return (json.dumps({**plain, "sha256": digest}, indent=1, allow_nan=False) + "\n").encode()


def unseal(data: bytes) -> dict[str, Any]:
    """The document in these bytes. Raises ValueError unless every bit is as `seal` wrote it.

    The digest alone is not enough: `1e-05` and `1E-05` are one number, but one bit has flipped.
    """
    try:
        document: dict[str, Any] = json.loads(data, object_hook=_unplain)
        del document["sha256"]
        if seal(document) == data:
            return document
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ValueError("the check sum does not hold")


def _plain(value: Any, where: str) -> Any:
    """The value as types that JSON keeps. JSON would silently convert other types."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT: str(float(value))}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    if isinstance(value, dict) and _FLOAT not in value and all(isinstance(key, str) for key in value):
        return {key: _plain(entry, f"{where}.{key}") for key, entry in value.items()}
    raise ValueError(
        f"{where}: expected None, bool, int, float, str, a list, or a dict with text keys (none of them "
        f"{_FLOAT!r}), got {type(value).__name__} {value!r:.80}"
    )


def _unplain(entry: dict[str, Any]) -> Any:
    return float(entry[_FLOAT]) if entry.keys() == {_FLOAT} else entry


def _temporary(path: Path) -> Path:
    """An unused name in path's folder. It is cut short, so that it is legal wherever path's own name is."""
    return path.with_name(f"{TEMPORARY}{path.name[:40]}-{secrets.token_hex(6)}")
