"""All parts: their functions and their texts by name, those that others call before them."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from npformer.lab.grader.parts import composite, operations

_COMPOSITE = {
    name: x for name, x in vars(composite).items() if isinstance(x, FunctionType) and name not in operations.TEXTS
}
#: The texts.
TEXTS: dict[str, str] = operations.TEXTS | {name: operations.plain(x) for name, x in _COMPOSITE.items()}
#: The functions.
FUNCTIONS: dict[str, Callable[..., Any]] = {name: getattr(operations, name) for name in operations.TEXTS} | _COMPOSITE
