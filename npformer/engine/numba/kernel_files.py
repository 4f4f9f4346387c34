"""Compiled kernels on disk, one file each, checked before any of it is used.

    MAGIC | SHA-256 of the key and the code (32 bytes) | the code, as Numba writes it

The key holds everything that the code depends on: sources, types of arguments, processor, versions. So a file with a
lost or changed bit, or one made from other sources or for another processor, does not match, whatever its name. Its
kernel is then compiled anew, with one message. Numba's own files have no digest: a flipped bit in one led to a memory
error, a traceback, or the end of the process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import sys
from contextlib import suppress
from functools import cache
from inspect import isfunction
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from npformer.engine.numba.kernel_folder import expect_own, place, say_once, usual_folder

MAGIC = b"npformer kernel 1\n"
HEAD = len(MAGIC) + hashlib.sha256().digest_size
PACKAGE = "npformer."
HOW = str(Path(__file__).with_name("compiling.py"))  # it says how kernels are compiled
NEWEST = 16  # files of one kernel that stay: of two precisions, from several checkouts and processors


class KernelFiles:
    """The stored files of one kernel, which is compiled from this function."""

    def __init__(self, name: str, function: Any) -> None:
        self._name, self._function = name, function

    def load(self, signature: Any, target: Any) -> Any | None:
        """The stored code for this signature, or None."""
        target.refresh()
        key = self._key(signature, target.codegen())
        for folder in place().folders:
            code = read(self._path(folder, key), key)
            if code is not None:
                return CompileResult._rebuild(target, *pickle.loads(code))
        return None

    def is_kept(self, signature: Any, target: Any) -> bool:
        """Whether other processes will find the code for this signature."""
        folder, key = usual_folder(), self._key(signature, target.codegen())
        return folder in place().folders and read(self._path(folder, key), key) is not None

    def save(self, signature: Any, code: Any) -> None:
        """Store code. A full disk only means that it is compiled again."""
        folder, key = place().to_write, self._key(signature, code.codegen)
        if folder is None:
            return
        try:
            write(self._path(folder, key), key, dumps(code._reduce()))
        except OSError as error:
            say_once(f"{folder}: expected room for compiled kernels, got: {error.strerror}; what is not kept there is "
                     "compiled again by the next process")  # fmt: skip
        _remove_oldest(folder, self._name)

    def _path(self, folder: Path, key: bytes) -> Path:
        return folder / f"{self._name}-{key.hex()[:32]}"

    def _key(self, signature: Any, codegen: Any) -> bytes:
        """A digest of all that the code depends on."""
        versions = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
        everything = (self._name, str(signature), codegen.magic_tuple(), versions, made_of(self._function))
        return hashlib.sha256(repr(everything).encode()).digest()


def made_of(function: Any) -> list[tuple[str, str]]:
    """What the machine code of a function depends on: the files with code in it, each with the constants known there.

    A constant of another file, as of ``functional``, counts by its value. The file in which a function is made for the
    types of its arguments (Numba's ``overload``) counts as a whole.
    """
    return sorted((_digest_of(Path(file)), _constants(names)) for file, names in files_of(function).items())


def files_of(function: Any) -> dict[str, dict[str, Any]]:
    """The files with code that is compiled into a function, each with the names of its module."""
    functions: set[Any] = set()
    _follow(function, functions)
    return {part.__code__.co_filename: part.__globals__ for part in functions} | {HOW: {}}


def _follow(function: Any, seen: set[Any]) -> None:
    """Add to seen the function, and those that are compiled together with it."""
    seen.add(function)
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        value = getattr(value, "py_func", getattr(value, "_defn", value))
        if isfunction(value) and value not in seen and value.__module__.startswith(PACKAGE):
            _follow(value, seen)


def _constants(names: dict[str, Any]) -> str:
    """The numbers among a module's names, its own and those that it imports, and tuples of them."""
    return repr(sorted(each for each in names.items() if isinstance(each[1], int | float | np.number | tuple)))


@cache
def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path: Path, key: bytes) -> bytes | None:
    """The code in a file if the file was written for this key and is unchanged, else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            expect_own(os.fstat(descriptor))
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError:  # somebody else's, a link, a folder, or a disk that fails
        data = b""
    code = data[HEAD:]
    if data[:HEAD] == MAGIC + _seal(key, code):
        return code
    say_once(
        f"{path.parent}: expected compiled kernels as they were kept, got files that are damaged or somebody else's, "
        f"{path.name} the first; what was in them is compiled anew"
    )
    return None


def write(path: Path, key: bytes, code: bytes) -> None:
    """Write code to a file atomically. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(MAGIC + _seal(key, code) + code)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _seal(key: bytes, code: bytes) -> bytes:
    return hashlib.sha256(key + code).digest()


def _remove_oldest(folder: Path, name: str) -> None:
    """Remove all but the NEWEST files of a kernel, since each change of its sources makes another one."""
    with suppress(OSError):
        files = sorted(folder.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
        for path in files[:-NEWEST]:
            path.unlink(missing_ok=True)
