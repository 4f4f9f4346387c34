"""Which line of a function set each of its names, and to what."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

#: The most steps that are followed, of which each costs time: a loop's are many.
STEPS = 2_000


class Lines:
    """While it is entered, ``last`` gets the line that a name was set or changed in last, and its value, encoded.

    Names begin with d: gradients. Only the function's own frame is looked at, and no object of it is kept. Of a call
    with too many steps nothing is told.
    """

    def __init__(self, function: Any, encode: Callable[[Any], Any]) -> None:
        self.last: dict[str, tuple[int, Any]] = {}
        self._code, self._encode, self._line = getattr(function, "__code__", None), encode, 0
        self._steps = 0

    def __enter__(self) -> Self:
        sys.settrace(self._follow)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _follow(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not self._code:
            return None
        self._steps += 1
        if self._steps > STEPS:
            self.last.clear()
            sys.settrace(None)
            frame.f_trace = None
            return None
        if event != "call":  # what the line before has done
            for name, value in frame.f_locals.items():
                form = self._encode(value) if name.startswith("d") else None
                if form is not None and self.last.get(name, (0, None))[1] != form:
                    self.last[name] = self._line, form
        self._line = frame.f_lineno
        return self._follow
