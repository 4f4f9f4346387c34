"""The inputs of a captured function: flattened to host arrays, copied to the device and put back into their tree.

The inputs are a tree of lists and tuples. ``backend/backend.py`` lists the leaves and what they become. Slices
and strings are not numbers: a record is valid only for the same ones, as it is for the same shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npformer.errors import ConfigError
from npformer.typing import Array, HostArray

ALIGNMENT = 256  # bytes: each array starts at a multiple of it


def arrays_of(given: Any, dtype: str) -> list[HostArray]:
    """The numbers among given's leaves, in order, with their dtypes on the device."""
    if isinstance(given, np.ndarray):
        return [given]
    if isinstance(given, bool | np.bool_):
        raise ConfigError(f"given: expected numbers, arrays, slices, lists or tuples, got the truth value {given}")
    if isinstance(given, int | np.integer):
        return [np.asarray(int(given), dtype=np.uint64)]
    if isinstance(given, float | np.floating):
        return [np.asarray(given, dtype=dtype)]
    if _is_vector(given):
        return [np.asarray(given, dtype=np.float64)]
    if isinstance(given, list | tuple):
        return [array for part in given for array in arrays_of(part, dtype)]
    if isinstance(given, slice | str):
        return []
    raise ConfigError(f"given: expected numbers, arrays, slices, lists or tuples, got {type(given).__name__}")


def with_arrays(given: Any, arrays: Iterator[Array]) -> Any:
    """given, with each leaf that is a number replaced by the next of arrays."""
    if isinstance(given, slice | str):
        return given
    if isinstance(given, list) or (isinstance(given, tuple) and not _is_vector(given)):
        parts = [with_arrays(part, arrays) for part in given]
        return type(given)(*parts) if hasattr(given, "_fields") else type(given)(parts)
    return next(arrays)


def key_of(given: Any, numbers: Sequence[HostArray]) -> Any:
    """The key of a record: equal for inputs with the same tree, slices, strings, shapes and dtypes."""
    return _tree(given), tuple((array.shape, array.dtype.char) for array in numbers)


def _tree(given: Any) -> Any:
    if isinstance(given, slice):
        return ("slice", given.start, given.stop, given.step)
    if isinstance(given, str):
        return given
    if isinstance(given, list) or (isinstance(given, tuple) and not _is_vector(given)):
        return tuple(map(_tree, given))
    return None


def _is_vector(given: Any) -> bool:
    """Whether this is a tuple of numbers."""
    return isinstance(given, tuple) and bool(given) and all(isinstance(x, int | float | np.number) for x in given)


def places(like: Sequence[HostArray]) -> tuple[list[int], int]:
    """The offset of each array in one block that holds them all, and the block's size, in bytes."""
    starts, size = [], 0
    for x in like:
        starts.append(size)
        size += -(-max(x.nbytes, 1) // ALIGNMENT) * ALIGNMENT
    return starts, size
