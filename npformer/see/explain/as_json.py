"""What is explained, as values of JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def as_json(x: Any) -> Any:
    """A value for JSON; records by their fields, without those that only the program reads (repr=False)."""
    if isinstance(x, np.ndarray | np.generic):
        return x.tolist()
    if is_dataclass(x):
        return {each.name: as_json(getattr(x, each.name)) for each in fields(x) if each.repr}
    if isinstance(x, dict) or hasattr(x, "_asdict"):
        named = x if isinstance(x, dict) else x._asdict()
        return {name: as_json(part) for name, part in named.items()}
    if isinstance(x, tuple | list):
        return [as_json(part) for part in x]
    return x if isinstance(x, str | int | float | bool) or x is None else str(x)
