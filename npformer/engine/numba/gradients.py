"""The arrays to which kernels add gradients of parameters: the parameters' own, if their layout allows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npformer.backend.numpy.gradients import Into
from npformer.engine.numba.products import fits_blas
from npformer.typing import Array


def rooms(into: Into, dtype: np.dtype, *shapes: tuple[int, ...]) -> list[Array]:
    """For each parameter the array to which a kernel adds its gradient; an empty array if it is not wanted."""
    returned = len(shapes) - len(into)
    arrays = []
    for i, shape in enumerate(shapes):
        place = None if i < returned else into[i - returned]
        if place is not None and (fits_blas(place) if place.ndim == 2 else place.flags.carray):
            arrays.append(place)
        elif place is None and i >= returned:
            arrays.append(np.empty((0,) * len(shape), dtype))
        else:
            arrays.append(np.zeros(shape, dtype))
    return arrays


def settle_rooms(dx: Array, arrays: Sequence[Array], into: Into) -> Array | tuple[Array, ...]:
    """Add what lies in temporary arrays to the gradients. Returns what a Pair's backward returns."""
    returned = len(arrays) - len(into)
    for place, room in zip(into, arrays[returned:], strict=True):
        if place is not None and room is not place:
            place += room
    return (dx, *arrays[:returned]) if returned else dx
