"""Detects, from its calls, a backward that measures its gradient instead of deriving it.

A derived gradient evaluates the forward at most once more. A measured one, by differences or by a complex step,
evaluates it many times with one number moved, whatever the name of the function that does so. So while backward runs,
every call of a Python function is examined for signs:

- an array that equals one of forward's arguments except for one number, for most of its numbers in turn;
- strictly: forward itself, or a function of the same instructions (an alias, a copy), called again and again; else it,
  or what it calls with its arguments, called near these: at the same numbers it may compute its results again;
- strictly: complex numbers, in arguments, variables or constants; else a complex step from an argument.

Not detected: code in another thread, or under a replaced profile hook; differences written out in the backward's own
lines without a call; all inputs moved at once in one large array. If the operation is not linear, the precision of the
result reveals the last two: the best difference is right to ten digits, a derivative to fifteen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, Self

import numpy as np

ROUNDING = 1e-12  # relative; the rest after a number is moved and moved back
STEP = 0.05  # beside the numbers: a step of a difference is smaller


class Measuring:
    """Watches a forward, within a ``with`` block, and then its backward within another.

    forward and its arguments (nested arrays); library: path prefixes of code that is not the user's.
    """

    def __init__(self, forward: Callable[..., Any], arguments: Any, library: tuple[str, ...], is_strict: bool) -> None:
        code = getattr(forward, "__code__", None) or getattr(type(forward).__call__, "__code__", None)
        self._forward, self._library, self._is_strict = _instructions(code), library, is_strict
        self._given = [np.array(x) for x in _arrays(arguments)]
        self._moved = [np.zeros(x.shape, dtype=bool) for x in self._given]
        self._numbers = {float(number) for x in self._given for number in x.flat}
        self._helpers, self._found, self._is_forward = {self._forward}, set[str](), True
        self._calls = self._numbers_off = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._found |= {"unwatched"} if error is None and sys.getprofile() != self._see else set()
        sys.setprofile(None)
        self._is_forward = False

    def signs(self) -> list[str]:
        """The signs found: "forward", "moved", "complex", "unwatched" (hook removed)."""
        if self._calls > 1 or self._numbers_off > max(1, len(self._numbers) // 2):
            self._found.add("forward")
        if any(np.count_nonzero(m) > max(1, m.size // 2) for m in self._moved):
            self._found.add("moved")
        return sorted(self._found)

    def _see(self, frame: FrameType, event: str, result: Any) -> None:
        code, is_call = frame.f_code, event == "call"
        is_theirs = not code.co_filename.startswith(self._library)
        if not is_call and not (is_theirs and event == ("return" if self._is_strict else "c_call")):
            return
        values = list(frame.f_locals.values())
        if self._is_forward:
            if is_call and is_theirs and any(map(self._is_given, values)):
                self._helpers.add(_instructions(code))
            return
        if event != "return":
            self._look(values)
        if self._is_strict:
            self._calls += is_call and self._forward is not None and _instructions(code) == self._forward
            constants = code.co_consts if is_call and is_theirs else ()
            is_complex = any(map(_is_complex, [*values, *constants, result]))
        else:
            is_complex = any(self._is_near(value) for value in values if _is_complex(value))
            if is_call and _instructions(code) in self._helpers:
                self._found |= {"forward"} if any(map(self._is_near, values)) else set()
                self._numbers_off += any(isinstance(v, float) and not self._is_given(v) for v in values)
        self._found |= {"complex"} if is_complex else set()

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
