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

_TREE, _NUMBERS = (list, tuple), (int, float, np.number)
ALIGNMENT = 256  # bytes: each array starts at a multiple of it


def flattened(inputs: Any, dtype: str) -> tuple[list[HostArray], Any]:
    """The numbers among the inputs' leaves, in order, with their dtypes on the device, and the key of a record.

    Keys are equal for inputs with the same tree, slices, strings, shapes and dtypes.
    """
    numbers: list[HostArray] = []
    tree = _flatten(inputs, dtype, numbers)
    return numbers, (tree, tuple([(x.shape, x.dtype.char) for x in numbers]))


def _flatten(inputs: Any, dtype: str, numbers: list[HostArray]) -> Any:
    """Append the numbers; returns the tree with None in place of each."""
    if isinstance(inputs, np.ndarray):
        numbers.append(inputs)
    elif isinstance(inputs, _TREE) and not _is_vector(inputs):
        return tuple([_flatten(part, dtype, numbers) for part in inputs])
    elif isinstance(inputs, slice):
        return "slice", inputs.start, inputs.stop, inputs.step
    elif isinstance(inputs, str):
        return inputs
    else:
        numbers.append(_number(inputs, dtype))
    return None


def _number(leaf: Any, dtype: str) -> HostArray:
    if isinstance(leaf, (bool, np.bool_)):
        raise ConfigError(f"inputs: expected numbers, arrays, slices, lists or tuples, got the truth value {leaf}")
    if isinstance(leaf, (int, np.integer)):
        return np.asarray(int(leaf), dtype=np.uint64)
    if isinstance(leaf, (float, np.floating)):
        return np.asarray(leaf, dtype=dtype)
    if isinstance(leaf, tuple):
        return np.asarray(leaf, dtype=np.float64)
    raise ConfigError(f"inputs: expected numbers, arrays, slices, lists or tuples, got {type(leaf).__name__}")


def with_arrays(inputs: Any, arrays: Iterator[Array]) -> Any:
    """The inputs, with each leaf that is a number replaced by the next of arrays."""
    if isinstance(inputs, slice | str):
        return inputs
    if isinstance(inputs, list) or (isinstance(inputs, tuple) and not _is_vector(inputs)):
        parts = [with_arrays(part, arrays) for part in inputs]
        return type(inputs)(*parts) if hasattr(inputs, "_fields") else type(inputs)(parts)
    return next(arrays)


def _is_vector(x: Any) -> bool:
    """Whether this is a tuple of numbers."""
    if not isinstance(x, tuple):
        return False
    for number in x:
        if not isinstance(number, _NUMBERS):
            return False
    return bool(x)


def places(like: Sequence[HostArray]) -> tuple[list[int], int]:
    """The offset of each array in one block that holds them all, and the block's size, in bytes."""
    starts, size = [], 0
    for x in like:
        starts.append(size)
        size += -(-max(x.nbytes, 1) // ALIGNMENT) * ALIGNMENT
    return starts, size
