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


def arrays_of(inputs: Any, dtype: str) -> list[HostArray]:
    """The numbers among the inputs' leaves, in order, with their dtypes on the device."""
    if isinstance(inputs, np.ndarray):
        return [inputs]
    if isinstance(inputs, bool | np.bool_):
        raise ConfigError(f"inputs: expected numbers, arrays, slices, lists or tuples, got the truth value {inputs}")
    if isinstance(inputs, int | np.integer):
        return [np.asarray(int(inputs), dtype=np.uint64)]
    if isinstance(inputs, float | np.floating):
        return [np.asarray(inputs, dtype=dtype)]
    if _is_vector(inputs):
        return [np.asarray(inputs, dtype=np.float64)]
    if isinstance(inputs, list | tuple):
        return [array for part in inputs for array in arrays_of(part, dtype)]
    if isinstance(inputs, slice | str):
        return []
    raise ConfigError(f"inputs: expected numbers, arrays, slices, lists or tuples, got {type(inputs).__name__}")


def with_arrays(inputs: Any, arrays: Iterator[Array]) -> Any:
    """The inputs, with each leaf that is a number replaced by the next of arrays."""
    if isinstance(inputs, slice | str):
        return inputs
    if isinstance(inputs, list) or (isinstance(inputs, tuple) and not _is_vector(inputs)):
        parts = [with_arrays(part, arrays) for part in inputs]
        return type(inputs)(*parts) if hasattr(inputs, "_fields") else type(inputs)(parts)
    return next(arrays)


def key_of(inputs: Any, numbers: Sequence[HostArray]) -> Any:
    """The key of a record: equal for inputs with the same tree, slices, strings, shapes and dtypes."""
    return _tree(inputs), tuple((array.shape, array.dtype.char) for array in numbers)


def _tree(inputs: Any) -> Any:
    if isinstance(inputs, slice):
        return ("slice", inputs.start, inputs.stop, inputs.step)
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, list) or (isinstance(inputs, tuple) and not _is_vector(inputs)):
        return tuple(map(_tree, inputs))
    return None


def _is_vector(x: Any) -> bool:
    """Whether this is a tuple of numbers."""
    return isinstance(x, tuple) and bool(x) and all(isinstance(number, int | float | np.number) for number in x)


def places(like: Sequence[HostArray]) -> tuple[list[int], int]:
    """The offset of each array in one block that holds them all, and the block's size, in bytes."""
    starts, size = [], 0
    for x in like:
        starts.append(size)
        size += -(-max(x.nbytes, 1) // ALIGNMENT) * ALIGNMENT
    return starts, size
