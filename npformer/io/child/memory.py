"""The memory that a stranger's code reads and writes: arrays between guards, used again when they are given back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

GUARD, MARK = 64, 255  # bytes on both sides, and what they hold: NaN, so that reading past an end shows
#: What memory holds that nobody has written: one of these.
FILLS = (np.nan, 1234.5)


class Lent:
    """An array, with what may not change: its guards and, unless it is to be written, its numbers."""

    def __init__(self, name: str, raw: Any, kind: Any, shape: tuple[int, ...]) -> None:
        self.name, self.raw = name, raw
        self.array = raw[GUARD : len(raw) - GUARD].view(kind).reshape(shape)
        self.kept = b""

    def faults(self) -> list[str]:
        """What was written outside of it."""
        raw, told = self.raw, []
        told += [f"writes before the start of {self.name}"] if np.any(raw[:GUARD] != MARK) else []
        told += [f"writes past the end of {self.name}"] if np.any(raw[len(raw) - GUARD :] != MARK) else []
        raw[:GUARD] = raw[len(raw) - GUARD :] = MARK
        return told

    def is_changed(self) -> bool:
        """Whether other numbers stand there than those that were to stay."""
        return bool(self.kept) and self.raw[GUARD : len(self.raw) - GUARD].tobytes() != self.kept


class Memory:
    """Lends arrays. What was given back last is lent first, to arrays of as many bytes."""

    def __init__(self) -> None:
        self._free: dict[int, list[Any]] = {}

    def lend(self, name: str, x: Any) -> Lent:
        """A copy of x that is not to be changed."""
        lent = self._lent(name, x.dtype, x.shape)
        lent.array[...] = x
        lent.kept = lent.array.tobytes()
        return lent

    def lend_to_write(self, name: str, kind: str, shape: Any, fill: int) -> Lent:
        """An array that holds one of FILLS."""
        lent = self._lent(name, np.dtype(kind), tuple(shape))
        lent.array[...] = FILLS[fill]
        return lent

    def give_back(self, lent: list[Lent]) -> None:
        for one in lent:
            self._free.setdefault(len(one.raw), []).append(one.raw)

    def _lent(self, name: str, kind: Any, shape: tuple[int, ...]) -> Lent:
        size = int(np.prod(shape)) * kind.itemsize + 2 * GUARD
        free = self._free.get(size)
        return Lent(name, free.pop() if free else np.full(size, MARK, dtype=np.uint8), kind, shape)


def fill_unwritten(fill: Callable[[], int]) -> None:
    """From here on np.empty and np.empty_like give arrays that hold one of FILLS."""

    def filled(make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def made(*args: Any, **options: Any) -> Any:
            array = make(*args, **options)
            if array.dtype.kind == "f":
                array.fill(FILLS[fill()])
            return array

        return made

    np.empty, np.empty_like = filled(np.empty), filled(np.empty_like)  # type: ignore[misc]
