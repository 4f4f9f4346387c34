"""Functions of the BLAS that this NumPy uses, found by name in the copy that NumPy has loaded.

A symbol lookup in NumPy's extension module also searches the libraries that it is linked with: OpenBLAS
in NumPy's wheels, Apple's Accelerate, a distribution's BLAS. Windows searches only the module itself, but its
wheels ship OpenBLAS next to the package.
"""

from __future__ import annotations

import ctypes
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
