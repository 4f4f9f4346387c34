"""A program of a stranger's in a process apart: it is asked, and ended with everything that it started."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.lib.stride_tricks import as_strided

from npformer.io.child.values import decode, encode
from npformer.io.child.wire import receive, send
from npformer.io.seconds import now
from npformer.typing import HostArray

GRACE = 1.5  # extra seconds, so that the child's own limit strikes first and can report the line
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")}
FIRST, LAST = 4000, 2000  # bytes of its prints that are kept
MOMENT = 0.05  # seconds by which its end may be late


@dataclass(frozen=True)
class Limits:
    """How long (seconds, wall clock) and in how much memory (bytes) code may run."""

    seconds: float = 10.0
    memory: int = 2 * 1024**3


class ChildEnded(Exception):
    """A program gives no answer. is_late: its time was up; code: how it ended by itself, "" if it goes on."""

    def __init__(self, why: str, is_late: bool = False, code: str = "") -> None:
        super().__init__(why)
        self.is_late, self.code = is_late, code


class Prints:
    """What a program writes to standard error: its first bytes, and its last."""

    def __init__(self, stream: Any) -> None:
        self.first, self.last = b"", b""
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: Any) -> None:
        with stream:
            while chunk := stream.read1(65536):
                self.first += chunk[: FIRST - len(self.first)]
                self.last = (self.last + chunk)[-LAST:]

    def wait(self) -> None:
        """Until the program, which has ended, has no more."""
        self._thread.join(2.0)


class EndAt:
    """Kills a process at a time, in the seconds of ``now``: one thread for all that it is asked."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.time, self.is_over, self.is_done, self._process = math.inf, False, threading.Event(), process
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self.is_over and not self.is_done.wait(MOMENT):
            if now() > self.time:
                self.is_over = True
                _kill(self._process)


class ChildProcess:
    """A program that answers requests, each a line of JSON and arrays, on its standard input and output.

    Raises OSError if it cannot be started. ``end`` ends it.
    """

    def __init__(
        self, command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environment, start_new_session=True
        )
        self.prints, self._end_at = Prints(self._process.stderr), EndAt(self._process)

    def ask(
        self, head: dict[str, Any], arrays: Sequence[HostArray], seconds: float
    ) -> tuple[dict[str, Any], list[HostArray]]:
        """(the answer's line, its arrays). Raises ChildEnded if there is none within so many seconds."""
        self._end_at.time = now() + seconds
        try:
            self._expect_no_more()
            send(self._process.stdin, head, arrays)
            answer = receive(self._process.stdout)
            self._expect_no_more()
            return answer
        except (OSError, EOFError, ValueError) as error:
            if self._end_at.is_over:
                raise ChildEnded(f"expected an answer within {seconds:g} s, got none", is_late=True) from None
            raise ChildEnded(str(error), code=self._code()) from None
        finally:
            self._end_at.time = math.inf

    def call(self, call: str, seconds: float, values: Any = (), /, **asked: Any) -> dict[str, Any]:
        """The answer of ``child`` to a call with named values; "value" and "arrays" are what that returns, if any."""
        given, arrays = lent(values)
        told, found = self.ask({"ask": call, **asked, **given}, arrays, seconds)
        return {**told, "value": decode(told["form"], found) if "form" in told else None, "arrays": found}

    def _code(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(0.2)
            return signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return ""

    def _expect_no_more(self) -> None:
        """Raise ValueError if the program has written more than it said."""
        stream: Any = self._process.stdout
        os.set_blocking(stream.fileno(), False)
        more = stream.peek(1)
        os.set_blocking(stream.fileno(), True)
        if more:
            raise ValueError(f"expected no bytes beyond those of its shapes, got {len(more)} or more: {more[:40]!r}")

    def end(self, seconds: float = 0.0) -> None:
        """Close its input; after so many seconds it is killed, with what it started."""
        self._end_at.is_done.set()
        if not seconds:
            _kill(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what it does not read any more
                stream.close()  # type: ignore[union-attr]
        try:
            self._process.wait(seconds or None)
        except subprocess.TimeoutExpired:
            _kill(self._process)
            self._process.wait()
        self.prints.wait()


def python_child(folder: Path) -> ChildProcess:
    """The program in ``child``, in this folder: with one thread, so that limits mean something; no user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-I", "-B", "-X", "utf8", str(Path(__file__).parent / "child")]
    return ChildProcess(command, folder, kept | ONE_THREAD)


def lent(values: Iterable[tuple[str, Any]]) -> tuple[dict[str, Any], list[HostArray]]:
    """Named values for a request to ``child``, which sees whether their arrays are changed; strides are kept."""
    arrays: list[HostArray] = []
    forms, names = [], list[str]()
    for name, value in values:
        forms.append(encode(value, arrays))
        names += [name] * (len(arrays) - len(names))
    head = {"given": {"tuple": forms}, "names": names, "forms": [(x.shape, x.strides) for x in arrays]}
    return head, list(map(_flat, arrays))


def _flat(x: HostArray) -> HostArray:
    """The elements from the first to the last, with what lies between them."""
    if x.flags.c_contiguous:
        return x.reshape(-1)
    span = sum((size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True))
    return as_strided(x, (1 + span // x.itemsize,), (x.itemsize,))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything that it started, by its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
