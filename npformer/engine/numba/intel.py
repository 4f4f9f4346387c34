"""Intel's library of matrix products (MKL, the extra ``mkl``), with which kernels multiply on Intel's processors.

NumPy's wheels bring OpenBLAS, which packs a weight into another order before each product. MKL does not pack if there
are few rows. With 4 to 16 rows, as in decoding, OpenBLAS takes up to three times as long, and with 64 rows a third
longer. MKL runs here without threads of its own, so no two pools of threads compete for the cores; a large product
outside a pool still goes to NumPy's library and its threads (see ``products``). On AMD's processors MKL is not used:
on one of them a training step of PyTorch, which uses MKL, took twice as long as ours with OpenBLAS.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm

SEQUENTIAL, REPEATABLE = 1, 2  # MKL_THREADING_SEQUENTIAL; MKL_CBWR_AUTO: the same bits wherever the memory lies
AMD = ("znver", "bdver", "btver")  # what LLVM calls its processors


class Intel(NamedTuple):
    """The library, or the reason why it is not used."""

    library: ctypes.CDLL | None
    version: str
    problem: str = ""


def intel_product(letter: str) -> Any | None:
    """MKL's matrix product for precision "s" or "d", as CBLAS declares it with 64-bit sizes; None if it is not used."""
    return getattr(intel().library, f"cblas_{letter}gemm_64", None)


def product_library() -> str:
    """The name of the library that multiplies in kernels, for comparing results or times."""
    return "NumPy's BLAS" if intel().problem else f"MKL {intel().version}"


@cache
def intel() -> Intel:
    """Find, load and set up the library of ``pip install mkl``, once."""
    try:
        package = importlib.metadata.distribution("mkl")
    except importlib.metadata.PackageNotFoundError:
        return Intel(None, "", "it is not installed")
    processor = llvm.get_host_cpu_name()
    if processor.startswith(AMD):
        return Intel(None, package.version, f"on this processor ({processor}) OpenBLAS is faster")
    for file in package.files or ():
        if file.name.startswith(("libmkl_rt.", "mkl_rt.")):
            return _set_up(str(file.locate()), package.version)
    return Intel(None, package.version, "its mkl_rt is not among its files")


def _set_up(path: str, version: str) -> Intel:
    """Load mkl_rt from path, and set it to one thread before its first product."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return Intel(None, version, f"it cannot be loaded ({error})")
    if library.MKL_Set_Threading_Layer(SEQUENTIAL) != SEQUENTIAL:
        return Intel(None, version, "another package has set it up with threads of its own")
    library.MKL_CBWR_Set(REPEATABLE)
    return Intel(library, version)
