"""Arrays as one text for a page: float64, one after the other, compressed, in base64.

Integers and booleans are written as float64, too; ids are far below 2⁵³. An array that occurs twice is stored once.
The page finds an array by its place: [kind "f" | "i" | "b", shape, index of its first number].
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from npformer.typing import HostArray

#: kind, shape, index of the first number
Place = list[Any]


class Pack:
    """Collects arrays; ``places`` says where each lies, by its name."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self._parts: list[HostArray] = []
        self._length = 0
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, array: HostArray, name: str = "") -> str:
        """Store an array of any real dtype, under ``name`` or a new name. Returns the name under which it is found."""
        numbers = np.asarray(array, dtype="<f8")
        kind = {"b": "b", "i": "i", "u": "i"}.get(np.asarray(array).dtype.kind, "f")
        key = (kind, numbers.shape, numbers.tobytes())
        if key in self._names and not name:
            return self._names[key]
        place = self.places[self._names[key]] if key in self._names else [kind, list(numbers.shape), self._length]
        name = name or f"p{len(self.places)}"
        if key not in self._names:
            self._parts.append(numbers.reshape(-1))
            self._length += numbers.size
            self._names[key] = name
        self.places[name] = place
        return name

    def text(self) -> str:
        """All numbers as base64 of a zlib stream of little-endian float64."""
        numbers = np.concatenate(self._parts) if self._parts else np.zeros(0)
        return base64.b64encode(zlib.compress(numbers.astype("<f8").tobytes(), 9)).decode("ascii")
