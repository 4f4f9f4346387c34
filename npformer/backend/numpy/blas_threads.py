"""How many threads NumPy's matrix products use: one function to read it, one to set it.

NumPy's wheels bring their own OpenBLAS, whose two functions are called directly: setting takes
about a microsecond. Another BLAS (conda's MKL, Apple's Accelerate) is left as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

#: Where wheels put it, beside or inside the package: Linux and Windows, macOS.
FOLDERS = ("../numpy.libs", ".dylibs")
SPELLINGS = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")


class _Controller(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], Any]


@cache
def _controller() -> _Controller | None:
    """OpenBLAS's own functions; None if NumPy uses another BLAS."""
    package = Path(np.__file__).parent
    for library in (path for folder in FOLDERS for path in sorted((package / folder).glob("*openblas*"))):
        try:
            loaded = ctypes.CDLL(str(library))  # the copy that NumPy has loaded, not a second one
        except OSError:
            continue
        for spelling in SPELLINGS:
            if hasattr(loaded, spelling.format("set")):
                return _Controller(getattr(loaded, spelling.format("get")), getattr(loaded, spelling.format("set")))
    return None


def can_set_blas_threads() -> bool:
    """Whether this NumPy's BLAS can be told how many threads to use."""
    return _controller() is not None


def blas_threads() -> int | None:
    """How many threads a matrix product may use now; None if that cannot be known."""
    controller = _controller()
    return None if controller is None else int(controller.get())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it, each matrix product runs on the thread that asks for it. Does nothing for another BLAS."""
    controller = _controller()
    if controller is None:
        yield
        return
    before = controller.get()
    controller.set(1)
    try:
        yield
    finally:
        controller.set(before)
