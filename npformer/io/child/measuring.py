"""Detects, from its calls, a backward that measures its gradient instead of deriving it.

A derived gradient evaluates the forward at most once more. A measured one, by differences or by a
complex step, evaluates it many times with one number moved, whatever the name of the function that
does so. So while backward runs, every call of a Python function is examined for three signs:

- forward itself, or a function of the same instructions (an alias, a copy);
- an array that equals one of forward's arguments except for one number, for most of its numbers in turn;
- complex numbers, in arguments, variables or constants.

Not detected: code in another thread, or under a replaced profile hook; differences written out in the
backward's own lines without a call; all inputs moved at once in one large array. If the operation is not
linear, the precision of the result reveals the last two: the best difference is right to ten digits, a
derivative to fifteen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

ROUNDING = 1e-12  # relative; the rest after a number is moved and moved back


class Measuring:
    """Watches the calls within a ``with`` block.

    forward and its arguments (nested arrays); library: path prefixes of code that is not the user's.
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
        """The signs found: "forward" (called more than once), "moved", "complex", "unwatched" (hook removed)."""
        moved = any(np.count_nonzero(m) > max(1, m.size // 2) for m in self._moved)
        signs = {"forward": self._calls > 1, "moved": moved, "complex": self._complex, "unwatched": not self._watched}
        return [sign for sign, seen in signs.items() if seen]

    def _see(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return"):
            return
        code, values = frame.f_code, list(frame.f_locals.values())
        is_theirs = not code.co_filename.startswith(self._library)
        if event == "call":
            self._calls += self._forward is not None and _instructions(code) == self._forward
            self._complex |= is_theirs and any(isinstance(constant, complex) for constant in code.co_consts)
            self._look(values)
        if is_theirs or event == "call":
            self._complex |= any(_is_complex(value) for value in [*values, result])

    def _look(self, values: list[Any]) -> None:
        """Note which number of an argument differs in one of these values."""
        for value in values:
            if isinstance(value, np.ndarray) and value.dtype.kind in "fc" and value.size > 1:
                for x, moved in zip(self._given, self._moved, strict=True):
                    if x.shape == value.shape:
                        other = np.abs(value.real - x) > ROUNDING * np.maximum(1.0, np.abs(x))
                        other |= value.imag != 0
                        if np.count_nonzero(other) == 1:
                            moved |= other


def _instructions(code: CodeType | None) -> Any:
    """A key that is equal for functions with the same instructions, whatever their names and positions."""
    return None if code is None else (code.co_code, code.co_names, code.co_varnames)


def _arrays(value: Any) -> Iterator[Any]:
    """The float arrays with more than one number in a nested value."""
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _arrays(part)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 1:
        yield value


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex | np.complexfloating) or (
        isinstance(value, np.ndarray) and value.dtype.kind == "c"
    )
