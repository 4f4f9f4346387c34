"""Nested values by dotted names: {"params": {"norm1": {"gamma": …}}} has the leaf params.norm1.gamma."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npformer.io.child.values import as_tuple
from npformer.typing import HostArray


def named(names: tuple[str, ...], values: Any) -> dict[str, Any]:
    """The leaves of values, one value for each name (a single one may omit its tuple), by dotted name.

    Raises ValueError if the numbers differ.
    """
    parts = zip(names, as_tuple(values), strict=True)
    return {".".join(path): leaf for name, part in parts for path, leaf in paths(part, (name,))}


def paths(value: Any, start: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], HostArray]]:
    """(path, array) of each array in a nested value; paths begin with start."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, (*start, key))
    else:
        yield start, value
