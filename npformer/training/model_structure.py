"""Whether a model computes what another of the same configuration does: its classes, settings, methods and operations.

Both are walked side by side. Names, shapes and dtypes of arrays are compared elsewhere (``model_arrays.py``), and the
numbers in them not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.layers.owner import Owner, attributes_set_later
from npformer.layers.parameter import Buffer, Parameter, ParameterView
from npformer.models import Model
from npformer.training.option_types import shown

#: Attributes that are compared elsewhere, or that change nothing that is computed.
_ELSEWHERE = {"arena", "backend", "config", "_version"}
_MOST = 5  # differences in a message
_MISSING = object()


def structure_differences(expected: Model, model: Model) -> str:
    """The first differences between model and expected, each with its place, what is expected and what is there; or "".

    A part of a subclass is the same if the subclass redefines nothing. Further attributes of a part count only where
    its class has them, too.
    """
    found = [*islice(_differences("", expected, model), _MOST + 1)]
    return "; ".join(found[:_MOST]) + ("; and more" if len(found) > _MOST else "")


def _differences(path: str, wanted: Any, there: Any) -> Iterator[str]:
    """How what is there at path differs from what is wanted."""
    if isinstance(wanted, Owner) and isinstance(there, Owner):
        reason = _other_class(type(wanted), type(there))
        if reason is None:
            yield from _part_differences(path, wanted, there)
        else:
            yield f"{path or 'the model'}: expected {type(wanted).__name__}, got {reason}"
    elif isinstance(wanted, list | tuple) and isinstance(there, list | tuple) and len(wanted) == len(there):
        for i, pair in enumerate(zip(wanted, there, strict=True)):
            yield from _differences(f"{path}.{i}", *pair)
    elif (wanted == (there.item() if isinstance(there, np.generic) else there)) is not True:
        yield f"{path}: expected {_named(wanted)}, got {_named(there)}"


def _other_class(wanted: type, there: type) -> str | None:
    """What there computes otherwise than wanted, its base or itself; None if it is the same."""
    if not issubclass(there, wanted):
        return f"{there.__name__}" if there.__name__ != wanted.__name__ else f"{there.__name__} of {there.__module__}"
    redefined = [name for kind in there.__mro__[: there.__mro__.index(wanted)] for name in vars(kind)]
    for name in (*redefined, *attributes_set_later(there)):
        if name != "static" and hasattr(wanted, name) and (name == "__call__" or not name.startswith(("__", "_abc_"))):
            return f"{there.__name__} with {name} of its own"
    return None


def _part_differences(path: str, wanted: Owner, there: Owner) -> Iterator[str]:
    """How a part differs from one of the same class: methods set on it, operations, settings, and the parts inside."""
    before = f"{path}." if path else ""
    if isinstance(wanted, Parameter | ParameterView | Buffer):
        return
    kind = type(wanted)
    names = dict.fromkeys([*vars(wanted), *(name for name in vars(there) if hasattr(kind, name))])
    for name in names:
        if callable(getattr(kind, name, None)):
            yield f"{before}{name}: expected the method of {kind.__name__}, got another that was set on this part"
        elif name not in _ELSEWHERE:
            yield from _differences(before + name, getattr(wanted, name), getattr(there, name, _MISSING))
    backend = getattr(there, "backend", None)
    if isinstance(backend, Backend) and not backend.has_own_ops:
        replaced = [name for name, pair in vars(backend.ops).items() if pair is not getattr(backend.own_ops, name)]
        yield from (f"{before}backend.ops.{name}: expected npformer's operation, got another" for name in replaced)


def _named(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)} parts"
    return "nothing" if value is _MISSING else type(value).__name__ if isinstance(value, Owner) else shown(value)
