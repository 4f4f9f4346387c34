"""What the Numba kernels share: contiguous rows, and whether gradients may be added in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npformer.typing import Array


def contiguous(x: Array) -> Array:
    """x in row-major order and aligned: x itself, or a copy."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else np.array(x, order="C")


def as_rows(x: Array) -> Array:
    """x (..., C) as rows (N, C), as in ``functional``, for NumPy arrays alone."""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def contiguous_rows(x: Array) -> Array:
    """x (..., C) as rows (N, C) in row-major order: a view, or a copy."""
    return as_rows(contiguous(x))


def is_direct(into: Sequence[Array | None]) -> bool:
    """Whether a kernel may add the gradients of a weight and a bias, or of γ and β, in place."""
    return len(into) == 2 and all(place is not None and place.flags.c_contiguous for place in into)
