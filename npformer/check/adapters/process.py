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
import json
import math
import os
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from npformer.check.checkable import Checkable
from npformer.errors import ConfigError, ProcessError
from npformer.typing import HostArray

LINE, TOLD = 1 << 20, 2000  # bytes: of an answer's line, of standard error in a message


def from_process(command: str | Sequence[str], *, names: Sequence[str] = (), seconds: float = 60.0) -> Checkable:
    """Wrap a program, or a list of it and its arguments, for ``npf.gradcheck``. No shell sees it.

    It is started at the first question, and ended when the returned object is no longer used: its input is closed.
    names: of the inputs, for the questions and the report. seconds: the longest that an answer may take. Inputs are
    arrays and numbers; the check's options for forward are sent as JSON. bfloat16 is sent as float32, rounded.

    Raises ConfigError if the program cannot be started or refuses, or if something cannot be sent; ProcessError if it
    dies, takes longer, or answers with other bytes than its shapes say: the next question then starts it anew.
    """
    words = [os.fspath(word) for word in ([command] if isinstance(command, str | os.PathLike) else command)]
    kernel = _Kernel(words, list(names), seconds)
    made = Checkable(Path(words[0]).stem, kernel.forward, kernel.backward)
    made.no_line = "check the same formulas as a NumPy pair, and a line may be named"
    if names:
        given = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        made.forward.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
    return made


class _Kernel:
    """The program as a pair of NumPy's."""

    def __init__(self, command: list[str], names: list[str], seconds: float) -> None:
        self._command, self._names, self._seconds = command, names, seconds
        self._running: list[Any] = []  # its process, or nothing
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - its standard error, as long as it may run
        weakref.finalize(self, _end, self._running, self._complaints)

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
        upstream = map(np.asarray, dy if isinstance(dy, tuple) else (dy,))
        return tuple(self._ask("backward", names, [*arrays, *upstream], options)[1])

    def _ask(self, what: str, names: list[str], arrays: list[HostArray], options: dict[str, Any]) -> tuple[Any, Any]:
        """(the answer's line, its arrays)."""
        types, shapes = [x.dtype.name for x in arrays], [x.shape for x in arrays]
        try:
            line = json.dumps({"ask": what, "names": names, "dtypes": types, "shapes": shapes, "options": options})
        except TypeError as error:
            raise ConfigError(f"options: expected what JSON can say, got {options}: {error}") from None
        if not self._running:
            self._running.append(_started(self._command, self._complaints))
        process, late = self._running[0], threading.Event()
        timer = threading.Timer(self._seconds, _kill, (process, late))
        timer.start()
        try:
            return _answered(process, line.encode() + b"\n", arrays)
        except (OSError, ProcessError) as error:
            timer.cancel()
            why = f"expected an answer within {self._seconds:g} s, got none; seconds= allows more"
            why = why if late.is_set() else self._reason(process, error)
            raise ProcessError(f"{what}: {self._command[0]}: {why}; its standard error: {self._said()}") from None
        finally:
            timer.cancel()

    def _reason(self, process: Any, error: Exception) -> str:
        with suppress(subprocess.TimeoutExpired):
            return f"expected an answer, but it ended with exit code {process.wait(0.2)}"
        return str(error)

    def _said(self) -> str:
        """The end of what the program, which is ended, wrote to standard error."""
        _end(self._running)
        self._complaints.seek(max(self._complaints.seek(0, os.SEEK_END) - TOLD, 0))
        return self._complaints.read().decode("utf-8", "replace").strip() or "nothing"


def _started(command: list[str], complaints: Any) -> subprocess.Popen[bytes]:
    complaints.truncate(0)
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=complaints, start_new_session=True)
    except OSError as error:
        raise ConfigError(f"{command[0]}: expected a program that can be started, got: {error}") from None


def _kill(process: Any, late: threading.Event) -> None:
    """End the program with what it started."""
    late.set()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _sendable(name: str, x: Any) -> HostArray:
    """x as an array. Raises TypeError for complex numbers, as the complex step tries them; ConfigError for no array."""
    array = np.asarray(x if isinstance(x, np.ndarray | np.generic | bool | int | float) else None)
    if array.dtype.kind == "c":
        raise TypeError("another process gets real numbers alone")
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        got = getattr(x, "dtype", type(x).__name__)
        raise ConfigError(f"{name}: expected an array of numbers or a number, got {got}; give it by name, as an option")
    return array


def _answered(process: Any, line: bytes, arrays: list[HostArray]) -> tuple[dict[str, Any], list[HostArray]]:
    """(the answer's line, its arrays). Raises ProcessError if it is none, ConfigError if it refuses."""
    _expect_no_more(process.stdout)
    process.stdin.write(line + b"".join(x.astype(x.dtype.newbyteorder("<")).tobytes() for x in arrays))
    process.stdin.flush()
    told = process.stdout.readline(LINE)
    try:
        answer = dict(json.loads(told))
        kinds = [np.dtype(name).newbyteorder("<") for name in answer.get("dtypes", ())]
        forms = list(zip(kinds, answer.get("shapes", ()), strict=True))
        if "error" not in answer and min(min(shape, default=0) for _, shape in forms) < 0:
            raise ValueError
    except (ValueError, TypeError):
        form = '{"dtypes": ["float64"], "shapes": [[5, 4]]}'
        raise ProcessError(f"expected a line such as {form}, got {told[:200]!r}; print other text elsewhere") from None
    if "error" in answer:
        raise ConfigError(f"{process.args[0]}: expected an answer, but it refuses: {answer['error']}")
    parts = [_array(process.stdout, *form) for form in forms]
    _expect_no_more(process.stdout)
    return answer, parts


def _array(stream: Any, kind: np.dtype[Any], shape: list[int]) -> HostArray:
    data = stream.read(math.prod(shape) * kind.itemsize)
    try:
        return np.frombuffer(data, kind).reshape(shape).astype(kind.newbyteorder("="))
    except ValueError:
        raise ProcessError(f"expected an array {shape} of {kind.name}, got {len(data)} bytes") from None


def _expect_no_more(stream: Any) -> None:
    """Raise ProcessError if the program has written more than it said."""
    os.set_blocking(stream.fileno(), False)
    more = stream.peek(1)
    os.set_blocking(stream.fileno(), True)
    if more:
        raise ProcessError(f"expected no bytes beyond those of its shapes, got {len(more)} or more: {more[:40]!r}")


def _end(running: list[Any], complaints: Any = None) -> None:
    """Close the program's input and wait a little; one that goes on is killed, with what it started."""
    for process in running:
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what it does not read any more
                stream.close()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            _kill(process, threading.Event())
            process.wait()
    running.clear()
    if complaints is not None:
        complaints.close()
