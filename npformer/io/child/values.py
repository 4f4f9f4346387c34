"""Nested values (tuples and dicts of arrays) as JSON and a list of arrays, and back. Both processes use this file.

JSON, because nothing from the other process may be executed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Foreign(str):
    """What a value is that is no number, array, tuple or dict."""


def encode(value: Any, arrays: list[Any], top: bool = False) -> Any:
    """A nested value as JSON, its arrays added to a list; top: a list counts as a tuple, as in ``return [dx, dw]``."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            return {"foreign": f"an array {array.shape} of {array.dtype}"}
        arrays.append(array)
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {"dict": {str(key): encode(part, arrays) for key, part in value.items()}}
    if isinstance(value, tuple) or (top and isinstance(value, list)):
        return {"tuple": [encode(part, arrays) for part in value]}
    if value is None or isinstance(value, bool | int | float):
        return {"value": value}
    return {"foreign": f"a {type(value).__name__}"}


def decode(form: Any, arrays: list[Any]) -> Any:
    """The inverse of encode."""
    if "array" in form:
        return arrays[form["array"]]
    if "dict" in form:
        return {key: decode(part, arrays) for key, part in form["dict"].items()}
    if "tuple" in form:
        return tuple(decode(part, arrays) for part in form["tuple"])
    return form["value"] if "value" in form else Foreign(form["foreign"])


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """A nested value with other arrays."""
    if isinstance(value, dict):
        return {key: mapped(change, part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(mapped(change, part) for part in value)
    return change(value) if isinstance(value, np.ndarray) else value


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Several values as they are, a single one as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def kind(value: Any) -> str:
    """A value in words."""
    if value is None:
        return "None (is a `return` missing?)"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"one array {value.shape}"
    return "a dict" if isinstance(value, dict) else str(value)
