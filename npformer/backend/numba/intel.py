"""Intel's own library of matrix products, the extra ``mkl``: kernels multiply with it on Intel's processors.

NumPy's wheels bring OpenBLAS, which packs a weight into an order of its own before each product. With 4 to
16 rows, as in decoding, that makes a product take up to three times as long as MKL's, which does not pack then,
and a third longer still with 64. MKL is used without threads of its own, so there are none to fight over the
cores: a large product outside a pool of threads still goes to NumPy's library and its threads (see ``products``). On
AMD's processors MKL is left alone: on one of them a training step of PyTorch, which multiplies with it, took twice as
long as ours with OpenBLAS.
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
    """The library, or in words why it is not in use."""

    library: ctypes.CDLL | None
    version: str
    problem: str = ""


def intel_product(letter: str) -> Any | None:
    """MKL's matrix product for precision "s" or "d", as CBLAS declares it with 64-bit sizes; None if it is not used."""
    return getattr(intel().library, f"cblas_{letter}gemm_64", None)


def product_library() -> str:
    """What multiplies in kernels, for those who compare results or times."""
    return "NumPy's BLAS" if intel().problem else f"MKL {intel().version}"


@cache
def intel() -> Intel:
    """Find, load and set up what ``pip install mkl`` brings, once."""
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
    """Load mkl_rt from path, and let it be without threads before its first product."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return Intel(None, version, f"it cannot be loaded ({error})")
    if library.MKL_Set_Threading_Layer(SEQUENTIAL) != SEQUENTIAL:
        return Intel(None, version, "another package has set it up with threads of its own")
    library.MKL_CBWR_Set(REPEATABLE)
    return Intel(library, version)
