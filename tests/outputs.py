"""What came out of a forward or a backward."""

from __future__ import annotations

from typing import Any


def parts(y) -> tuple[Any, ...]:
    """The arrays, as a tuple, be they several, one or none."""
    return y if isinstance(y, tuple) else (() if y is None else (y,))
