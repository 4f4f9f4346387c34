"""Which line of a function set each of its names, and to what."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Self

import numpy as np

#: The most steps that are followed, of which each costs time: a loop's are many.
STEPS = 2_000


class LineValues:
    """While it is entered, ``last`` gets the line that a name was set or changed in last, and a copy of its array.

    Names begin with d: gradients. Only the function's own frame is looked at. Of a call with too many steps nothing is
    told.
    """

    def __init__(self, function: Any) -> None:
        self.last: dict[str, tuple[int, Any]] = {}
        self._code, self._line, self._steps = getattr(function, "__code__", None), 0, 0

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
                if (
                    name.startswith("d")
                    and isinstance(value, np.ndarray | float)
                    and np.array(value).dtype.kind in "fiub"
                ):
                    before, now = self.last.get(name, (0, None))[1], np.array(value)
                    if before is None or (before.shape, before.tobytes()) != (now.shape, now.tobytes()):
                        self.last[name] = self._line, now
        self._line = frame.f_lineno
        return self._follow
