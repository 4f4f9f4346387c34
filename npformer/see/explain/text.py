"""What all explanations share: lines of one width, numbers and shares as text, and values as JSON."""

from __future__ import annotations

import textwrap
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from npformer.io.percent import percent

NARROWEST, WIDEST = 60, 160


class Sheet:
    """Lines of one width, the nearest to it from NARROWEST to WIDEST."""

    def __init__(self, width: int) -> None:
        self.width = max(NARROWEST, min(width, WIDEST))
        self.lines: list[str] = []

    def wrapped(self, text: str, first: str = "", hanging: str = "") -> None:
        """Add a paragraph; first, hanging: what its first line begins with, and the others."""
        self.lines += textwrap.wrap(text, self.width, initial_indent=first, subsequent_indent=hanging)


def number(x: float) -> str:
    """A number with its sign, in four digits."""
    return f"{x:+.3e}" if x else "0"


def share(part: float, whole: float) -> str:
    """A share in percent."""
    return percent(part / whole, 0)


def as_json(x: Any) -> Any:
    """A value for JSON; records by their fields, without those that only the program reads (repr=False)."""
    if isinstance(x, np.ndarray | np.generic):
        return x.tolist()
    if is_dataclass(x):
        return {each.name: as_json(getattr(x, each.name)) for each in fields(x) if each.repr}
    if hasattr(x, "_asdict"):
        return as_json(x._asdict())
    if isinstance(x, dict):
        return {name: as_json(part) for name, part in x.items()}
    if isinstance(x, tuple | list):
        return [as_json(part) for part in x]
    return x if isinstance(x, str | int | float | bool) or x is None else str(x)
