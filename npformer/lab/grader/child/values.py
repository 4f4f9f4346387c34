"""Nested values (tuples and dicts of arrays) as JSON and back.

JSON, because nothing from the learner's process may be executed, and because Python writes
every float64 exactly in it. Both processes use this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = 100_000  # the most numbers in one sent array


class Foreign(str):
    """What a value is that is no number, array, tuple or dict."""


def encode(value: Any, top: bool = False) -> Any:
    """A nested value as JSON; top: a list counts as a tuple, as people write ``return [dx, dw]``."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or array.size > LARGEST:
            return {"foreign": f"an array {array.shape} of {array.dtype}"}
        return {"array": array.ravel().tolist(), "shape": list(array.shape), "dtype": str(array.dtype)}
    if isinstance(value, dict):
        return {"dict": {str(key): encode(part) for key, part in value.items()}}
    if isinstance(value, tuple) or (top and isinstance(value, list)):
        return {"tuple": [encode(part) for part in value]}
    if value is None or isinstance(value, bool | int | float):
        return {"value": value}
    return {"foreign": f"a {type(value).__name__}"}


def decode(form: Any, gaps: bool = False) -> Any:
    """The inverse of encode; new arrays, with gaps between their elements if gaps."""
    if "array" in form:
        array = np.array(form["array"], dtype=form["dtype"]).reshape(form["shape"])
        return np.repeat(array, 2, axis=-1)[..., ::2] if gaps and array.ndim else array
    if "dict" in form:
        return {key: decode(part, gaps) for key, part in form["dict"].items()}
    if "tuple" in form:
        return tuple(decode(part, gaps) for part in form["tuple"])
    return form["value"] if "value" in form else Foreign(form["foreign"])


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Several values as they are, a single one as a tuple."""
    return value if isinstance(value, tuple) else (value,)
