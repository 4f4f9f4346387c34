"""Functions of the BLAS that this NumPy uses, found by name in the copy that NumPy has loaded.

A symbol lookup in NumPy's extension module also searches the libraries that it is linked with: OpenBLAS
in NumPy's wheels, Apple's Accelerate, a distribution's BLAS. Windows searches only the module itself, but its
wheels ship OpenBLAS next to the package.

The number of threads of NumPy's matrix products can be read and set. OpenBLAS, which NumPy's wheels include, has a
function for each; they are called directly, and setting takes about a microsecond. The threads of another BLAS (conda's
MKL, Apple's Accelerate) are left unchanged.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

#: OpenBLAS of NumPy's wheels, since 2.0 and before; Accelerate; MKL and others with 64-bit and with 32-bit sizes.
PRODUCTS = ("scipy_cblas_{}gemm64_", "cblas_{}gemm64_", "cblas_{}gemm$NEWLAPACK$ILP64", "cblas_{}gemm_64",
            "cblas_{}gemm")  # fmt: skip

#: OpenBLAS's function that names the processor core whose kernels it selected, in wheels and in distributions.
CORES = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename64_",
         "openblas_get_corename")  # fmt: skip


def blas_product(letter: str) -> Any | None:
    """The matrix product for precision "s" or "d", as CBLAS declares it; None if it has no known name."""
    return blas_function(*(spelling.format(letter) for spelling in PRODUCTS))


def blas_core() -> str | None:
    """The processor core whose kernels OpenBLAS uses, such as "Haswell"; None if NumPy has another BLAS.

    OpenBLAS chooses it when it is loaded. The environment variable OPENBLAS_CORETYPE selects another one; for a core
    that this build lacks, OpenBLAS takes a similar one. The last bits of a product differ between cores.
    """
    function = blas_function(*CORES)
    if function is None:
        return None
    function.restype = ctypes.c_char_p
    return str(function().decode())


@cache
def blas_function(*spellings: str) -> Any | None:
    """The function with the first of these names that exists; None if none exists."""
    for library in _libraries():
        for spelling in spellings:
            if hasattr(library, spelling):
                return getattr(library, spelling)
    return None


@cache
def _libraries() -> list[ctypes.CDLL]:
    """NumPy's extension module and the libraries next to NumPy, as far as they can be loaded."""
    extension = Path(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]  # NumPy's name for it since 2.0
    libraries = []
    for path in (extension, *sorted(Path(np.__file__).parent.parent.glob("numpy.libs/*openblas*"))):
        try:
            libraries.append(ctypes.CDLL(str(path)))  # the copy that NumPy has loaded, not a second one
        except OSError:
            continue
    return libraries


SPELLINGS = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")


@cache
def _controller() -> tuple[Any, Any] | None:
    """OpenBLAS's own functions, which get and set the number; None if NumPy uses another BLAS."""
    get, set_ = (blas_function(*(spelling.format(verb) for spelling in SPELLINGS)) for verb in ("get", "set"))
    return None if get is None or set_ is None else (get, set_)


def blas_thread_counter() -> Any | None:
    """OpenBLAS's function that says how many threads a product may use, as C calls it; None for another BLAS."""
    return (_controller() or (None,))[0]


def can_set_blas_threads() -> bool:
    """Whether this NumPy's BLAS can be told how many threads to use."""
    return _controller() is not None


def blas_threads() -> int | None:
    """The number of threads that a matrix product may use now; None if it is unknown."""
    counter = blas_thread_counter()
    return None if counter is None else int(counter())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, each matrix product runs only on the calling thread. Has no effect on another BLAS."""
    controller = _controller()
    if controller is None:
        yield
        return
    get, set_ = controller
    before = get()
    set_(1)
    try:
        yield
    finally:
        set_(before)
