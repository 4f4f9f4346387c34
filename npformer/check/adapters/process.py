"""Gradient checks of a kernel in any language: a program that computes forward and backward when it is asked.

    npf.gradcheck(npf.from_process("./softmax"), x)

It reads questions from standard input and writes answers to standard output, until its input ends:

    {"ask": "forward", "names": ["x"], "dtypes": ["float64"], "shapes": [[5, 4]], "options": {}}    one line of JSON,
    x                                                    then the arrays' bytes: little-endian, in C's order
    {"dtypes": ["float64"], "shapes": [[5, 4]]}          the answer: such a line, then y in the same form

``backward`` gets the inputs, all arrays of forward's answer, and a ``dy`` for each output, which has the output's name
after a d; it answers a gradient for each float input. If forward adds arrays for backward to use, its answer says how
many of them, from the first on, are ``"outputs"``. An answer ``{"error": "…"}`` refuses a question.
"""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npformer.check.checkable import Checkable
from npformer.check.inputs import as_tuple
from npformer.errors import ConfigError, ProcessError
from npformer.io.child_process import ChildEnded, ChildProcess
from npformer.typing import HostArray, Values


def from_process(command: str | Sequence[str], *, names: Sequence[str] = (), seconds: float = 60.0) -> Checkable:
    """Wrap a program, or a list of it and its arguments, for ``npf.gradcheck``. No shell sees it.

    It is started at the first question, and ended when the returned object is no longer used: its input is closed.
    names: of the inputs, for the questions and the report. seconds: the longest that an answer may take. Inputs are
    arrays and numbers; the check's options for forward are sent as JSON. bfloat16 is sent as float32, rounded.

    Raises ConfigError if the program cannot be started or refuses, or if something cannot be sent; ProcessError if it
    dies, takes longer, or answers with other bytes than its shapes say: the next question then starts it anew.
    """
    words = [os.fspath(word) for word in ([command] if isinstance(command, str | os.PathLike) else command)]
    kernel = _Program(words, list(names), seconds)
    made = Checkable(Path(words[0]).stem, kernel.forward, kernel.backward)
    made.no_line = "check the same formulas as a NumPy pair, and a line may be named"
    if names:
        kinds = {**dict.fromkeys(names, inspect.Parameter.POSITIONAL_ONLY), "options": inspect.Parameter.VAR_KEYWORD}
        made.forward.__signature__ = inspect.Signature([inspect.Parameter(*each) for each in kinds.items()])  # type: ignore[attr-defined]
    return made


class _Program:
    """The program as a pair of NumPy's."""

    def __init__(self, command: list[str], names: list[str], seconds: float) -> None:
        self._command, self._names, self._seconds = command, names, seconds
        self._running: list[ChildProcess] = []  # its process, or nothing
        weakref.finalize(self, _end, self._running)

    def forward(self, *inputs: Any, **options: Any) -> tuple[Any, Any]:
        names = (self._names + [f"input{i}" for i in range(len(inputs))])[: len(inputs)]
        sent = [_sendable(name, x) for name, x in zip(names, inputs, strict=True)]
        answer, parts = self._ask("forward", names, sent, options)
        count = answer.get("outputs", len(parts))
        told = answer.get("names") or [f"y{i}" if len(parts) > 1 else "y" for i in range(len(parts))]
        cache = [*names, *told, *(f"d{name}" for name in told[:count])], [*sent, *parts], options
        return parts[0] if count == 1 else tuple(parts[:count]), cache

    def backward(self, dy: Any, cache: Any) -> tuple[HostArray, ...]:
        names, arrays, options = cache
        upstream = map(np.asarray, as_tuple(dy))
        return tuple(self._ask("backward", names, [*arrays, *upstream], options)[1])

    def _ask(self, what: str, names: list[str], arrays: list[HostArray], options: Values) -> tuple[Any, Any]:
        """(the answer's line, its arrays)."""
        program = self._command[0]
        try:
            process = self._running[0] if self._running else ChildProcess(self._command)
        except OSError as error:
            raise ConfigError(f"{program}: expected a program that can be started, got: {error}") from None
        self._running[:] = [process]
        head = {"ask": what, "names": names, "dtypes": [], "shapes": [], "options": options}
        try:
            answer, parts = process.ask(head, arrays, self._seconds)
        except TypeError as error:
            raise ConfigError(f"options: expected what JSON can say, got {options}: {error}") from None
        except ChildEnded as ended:
            why = f"expected an answer, but it ended with {ended.code}" if ended.code else str(ended)
            why += "; seconds= allows more" * ended.is_late
            _end(self._running)
            said = process.prints.last.decode("utf-8", "replace").strip() or "nothing"
            raise ProcessError(f"{what}: {program}: {why}; its standard error: {said}") from None
        if "error" in answer:
            raise ConfigError(f"{program}: expected an answer, but it refuses: {answer['error']}")
        return answer, parts


def _sendable(name: str, x: Any) -> HostArray:
    """x as an array. Raises TypeError for complex numbers, as the complex step tries them; ConfigError for no array."""
    array = np.asarray(x if isinstance(x, np.ndarray | np.generic | bool | int | float) else None)
    if array.dtype.kind == "c":
        raise TypeError("another process gets real numbers alone")
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        got = getattr(x, "dtype", type(x).__name__)
        raise ConfigError(f"{name}: expected an array of numbers or a number, got {got}; give it by name, as an option")
    return array


def _end(running: list[ChildProcess]) -> None:
    """End the process, if there is one; it may take a second to do so by itself."""
    while running:
        running.pop().end(1.0)
