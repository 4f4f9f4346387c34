"""Sees a backward that measures slopes, in more ways than ``measuring``, and lets it compute its forward again.

The forward, and what it calls with one of its inputs, may be called in the backward at the same numbers, or at numbers
as far off as dy, but not at numbers near them. Complex numbers are a sign only as a step from an input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
from measuring import ROUNDING, Measuring, _instructions  # type: ignore[import-not-found]

STEP = 0.05  # beside the numbers: a step of a difference is smaller
TEXTS = {
    "forward": "measures slopes: it calls forward near its numbers",
    "moved": "measures slopes: it moves one number of an input after another",
    "complex": "measures slopes: it takes a complex step",
    "unwatched": "takes away what watches its calls",
}


class SlopesSeen(Measuring):  # type: ignore[misc]
    """Watches a forward, within a ``with`` block, and then its backward within another."""

    def __init__(self, forward: Callable[..., Any], inputs: Sequence[Any], library: tuple[str, ...]) -> None:
        super().__init__(forward, inputs, library)
        self._helpers, self._found, self._numbers_off = {self._forward}, set[str](), 0
        self._numbers = {float(number) for x in self._given for number in x.flat}
        self._is_forward = True

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._is_forward = False

    def signs(self) -> list[str]:
        """What the backward does."""
        if self._numbers_off > max(1, len(self._numbers) // 2):
            self._found.add("forward")
        return [TEXTS[sign] for sign in sorted(self._found | set(super().signs()))]

    def _see(self, frame: FrameType, event: str, result: Any) -> None:
        is_theirs = not frame.f_code.co_filename.startswith(self._library)
        if event != "call" and not (event == "c_call" and is_theirs):
            return
        values, code = list(frame.f_locals.values()), _instructions(frame.f_code)
        if self._is_forward:
            if event == "call" and is_theirs and any(map(self._is_given, values)):
                self._helpers.add(code)
            return
        self._look(values)
        if any(self._is_near(value) and value.dtype.kind == "c" for value in values):
            self._found.add("complex")
        if event == "call" and code in self._helpers:
            self._found |= {"forward"} if any(map(self._is_near, values)) else set()
            self._numbers_off += any(isinstance(v, float) and not self._is_given(v) for v in values)

    def _is_given(self, value: Any) -> bool:
        if isinstance(value, float | np.floating):
            return float(value) in self._numbers
        return isinstance(value, np.ndarray) and any(np.array_equal(value, x) for x in self._given)

    def _is_near(self, value: Any) -> bool:
        """Whether an array is one of the inputs, or several copies of it, moved a little."""
        for x in self._given if isinstance(value, np.ndarray) and value.dtype.kind in "fc" else ():
            if value.shape[-x.ndim :] == x.shape:
                off, size = float(np.max(np.abs(value - x))), max(1.0, float(np.max(np.abs(x))))
                is_moved = off > ROUNDING * size or bool(np.any(np.imag(value)))
                if is_moved and off < STEP * size:
                    return True
        return False
