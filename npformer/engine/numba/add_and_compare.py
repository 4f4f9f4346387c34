"""Kernels for what layers write as NumPy expressions, so that a step can be recorded: a + b, and tokens ≠ pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.workspace import empty
from npformer.engine.numba.arguments import OutFlags, OutVector, Vector, Whole
from npformer.engine.numba.compiling import kernel
from npformer.engine.numba.recording import NotRecordable, stands_for
from npformer.typing import Array


@stands_for("add")
def _sum(a: Array, b: Array, out: Array | None) -> Array:
    """a (..., *n) + b (*n)."""
    arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and a.dtype.char in "fd"
    if not arrays or a.shape[a.ndim - b.ndim :] != b.shape or b.size == 0:
        raise NotRecordable("a sum is of other shapes or numbers than there is a kernel for")
    y = empty(a.shape, a.dtype) if out is None else out
    add(*map(_flat, (a, b, y)))
    return y


@stands_for("not_equal")
def _differs(a: Array, b: Any, out: Array | None) -> Array:
    """a (...) ≠ b, entry by entry."""
    if out is not None or not isinstance(b, int) or a.dtype != np.int64:
        raise NotRecordable("a comparison is of other numbers than there is a kernel for")
    y = empty(a.shape, np.bool_)
    compare(_flat(a), b, _flat(y))
    return y


def _flat(x: Array) -> Array:
    if not (x.flags.c_contiguous and x.flags.aligned):
        raise NotRecordable("an array does not lie in one piece")
    return x.reshape(x.size)


@kernel(calls="recording")
def add(a: Vector, b: Vector, y: OutVector):
    """y (k·n,) = a (k·n,) + b (n,), b repeated k times."""
    for first in range(0, a.size, b.size):
        some_a, some_y = a[first : first + b.size], y[first : first + b.size]
        for i in range(b.size):
            some_y[i] = some_a[i] + b[i]


@kernel(calls="recording")
def compare(a: Whole, b: int, y: OutFlags):
    """y = a ≠ b."""
    for i in range(a.size):
        y[i] = a[i] != b
