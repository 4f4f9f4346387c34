"""The number of threads of NumPy's matrix products: reading it and setting it.

OpenBLAS, which NumPy's wheels include, has a function for each; they are called directly, and setting
takes about a microsecond. The threads of another BLAS (conda's MKL, Apple's Accelerate) are left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from npformer.backend.numpy.blas import blas_function

SPELLINGS = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")


class _Controller(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], Any]


@cache
def _controller() -> _Controller | None:
    """OpenBLAS's own functions; None if NumPy uses another BLAS."""
    get, set_ = (blas_function(*(spelling.format(verb) for spelling in SPELLINGS)) for verb in ("get", "set"))
    return None if get is None or set_ is None else _Controller(get, set_)


def blas_thread_counter() -> Any | None:
    """OpenBLAS's function that says how many threads a product may use, as C calls it; None for another BLAS."""
    controller = _controller()
    return None if controller is None else controller.get


def can_set_blas_threads() -> bool:
    """Whether this NumPy's BLAS can be told how many threads to use."""
    return _controller() is not None


def blas_threads() -> int | None:
    """The number of threads that a matrix product may use now; None if it is unknown."""
    controller = _controller()
    return None if controller is None else int(controller.get())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, each matrix product runs only on the calling thread. Has no effect on another BLAS."""
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
