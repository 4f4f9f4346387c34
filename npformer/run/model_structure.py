"""Whether a model computes what another of the same configuration does: in classes, settings, methods, operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.layers.owner import Owner, patched_methods
from npformer.layers.parameter import Buffer, Parameter, ParameterView
from npformer.run.option_types import shown

#: Compared elsewhere, or without effect on what is computed.
_ELSEWHERE = {"arena", "backend", "classes", "config", "tokenizer", "_version", "_seen"}


def structure_differences(path: str, wanted: Any, there: Any) -> Iterator[str]:
    """How what is there at path differs from what is wanted: each place, what is expected there, and what is found.

    A part of a subclass is the same if the subclass redefines nothing. Further attributes of a part count only where
    its class has them, too.
    """
    if isinstance(wanted, Owner) and isinstance(there, Owner):
        if odd := _other_class(type(wanted), type(there)):
            yield f"{path or 'the model'}: expected {type(wanted).__name__}, got {odd}"
        elif not isinstance(wanted, Parameter | ParameterView | Buffer):
            yield from _part_differences(f"{path}." if path else "", wanted, there)
    elif isinstance(wanted, list | tuple) and isinstance(there, list | tuple) and len(wanted) == len(there):
        for i, pair in enumerate(zip(wanted, there, strict=True)):
            yield from structure_differences(f"{path}.{i}", *pair)
    elif (wanted == (there.item() if isinstance(there, np.generic) else there)) is not True:
        yield f"{path}: expected {_named(wanted)}, got {_named(there)}"


def _other_class(wanted: type, there: type) -> str:
    """What there computes otherwise than wanted, its base or itself; "" if it is the same."""
    if not issubclass(there, wanted):
        return there.__name__ + (f" of {there.__module__}" if there.__name__ == wanted.__name__ else "")
    redefined = [name for kind in there.__mro__[: there.__mro__.index(wanted)] for name in vars(kind)]
    for name in (*redefined, *patched_methods(wanted)):
        if name != "static" and hasattr(wanted, name) and (name == "__call__" or not name.startswith(("__", "_abc_"))):
            return f"{there.__name__} with {name} of its own"
    return ""


def _part_differences(before: str, wanted: Owner, there: Owner) -> Iterator[str]:
    """How a part differs from one of the same class: methods set on it, settings, the parts inside, operations."""
    kind, backend = type(wanted), getattr(there, "backend", None)
    for name in dict.fromkeys([*vars(wanted), *(name for name in vars(there) if hasattr(kind, name))]):
        if callable(getattr(kind, name, None)):
            yield f"{before}{name}: expected the method of {kind.__name__}, got another that was set on this part"
        elif name not in _ELSEWHERE:
            yield from structure_differences(before + name, getattr(wanted, name), getattr(there, name, NotImplemented))
    if isinstance(backend, Backend) and not backend.has_own_ops:
        replaced = [name for name, pair in vars(backend.ops).items() if pair is not getattr(backend.own_ops, name)]
        yield from (f"{before}backend.ops.{name}: expected npformer's operation, got another" for name in replaced)


def _named(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)} parts"
    return "nothing" if value is NotImplemented else type(value).__name__ if isinstance(value, Owner) else shown(value)
