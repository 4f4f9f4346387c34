"""Sees whether a backward measures its gradient instead of deriving it, by what it calls.

A derived gradient evaluates the forward once more at most. One that is measured, by differences or by a
complex step, evaluates it again and again with one number moved, whatever the function that does so is
called. So while backward runs, every call of a Python function is looked at for three signs:

- forward itself, or a function of the same instructions (an alias, a copy);
- an array that is one of forward's arguments but for one number, for most of its numbers;
- complex numbers, in arguments, variables or constants: no exercise has a use for them.

Not seen: what runs in a thread of its own, or in a profile that is put back; differences written out in the
backward's own lines without a call; all inputs moved at once in one large array. Where the operation is not
linear, the precision of what comes back tells of the last two: the best difference is right to ten digits, a
derivative to fifteen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

ROUNDING = 1e-12  # relative; what is left of a number that was moved and moved back


class Measuring:
    """Watches the calls that are made inside ``with``.

    forward and its arguments (nested arrays); library: how the names of files of code begin that is not the
    learner's.
    """

    def __init__(self, forward: Callable[..., Any], arguments: Any, library: tuple[str, ...]) -> None:
        code = getattr(forward, "__code__", None) or getattr(type(forward).__call__, "__code__", None)
        self._forward, self._library = _instructions(code), library
        self._given = [np.array(x) for x in _arrays(arguments)]
        self._moved = [np.zeros(x.shape, dtype=bool) for x in self._given]
        self._calls, self._complex, self._watched = 0, False, True

    def __enter__(self) -> Measuring:
        sys.setprofile(self._see)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watched = error is not None or sys.getprofile() == self._see
        sys.setprofile(None)

    def signs(self) -> list[str]:
        """What was seen: "forward" (called more than once), "moved", "complex"; "unwatched" if it looked away."""
        moved = any(np.count_nonzero(m) > max(1, m.size // 2) for m in self._moved)
        found = {"forward": self._calls > 1, "moved": moved, "complex": self._complex, "unwatched": not self._watched}
        return [sign for sign, seen in found.items() if seen]

    def _see(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return"):
            return
        code, values = frame.f_code, list(frame.f_locals.values())
        own = not code.co_filename.startswith(self._library)
        if event == "call":
            self._calls += self._forward is not None and _instructions(code) == self._forward
            self._complex |= own and any(isinstance(constant, complex) for constant in code.co_consts)
            self._look(values)
        if own or event == "call":
            self._complex |= any(_is_complex(value) for value in [*values, result])

    def _look(self, values: list[Any]) -> None:
        """Note which number of an argument is another in one of these values."""
        for value in values:
            if isinstance(value, np.ndarray) and value.dtype.kind in "fc" and value.size > 1:
                for given, moved in zip(self._given, self._moved, strict=True):
                    if given.shape == value.shape:
                        other = np.abs(value.real - given) > ROUNDING * np.maximum(1.0, np.abs(given))
                        other |= value.imag != 0
                        if np.count_nonzero(other) == 1:
                            moved |= other


def _instructions(code: CodeType | None) -> Any:
    """What two functions share that do the same, whatever their names and places."""
    return None if code is None else (code.co_code, code.co_names, code.co_varnames)


def _arrays(value: Any) -> Iterator[Any]:
    """The arrays of floats of more than one number in a nested value."""
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _arrays(part)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 1:
        yield value


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex | np.complexfloating) or (
        isinstance(value, np.ndarray) and value.dtype.kind == "c"
    )
