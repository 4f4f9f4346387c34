"""What a learner's code may not do, where it stops, and how that is told."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any

STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink", "shutil.rmtree")
NETWORK = ("socket.connect", "socket.bind", "socket.getaddrinfo")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
HERE = os.path.dirname(os.path.abspath(__file__))


class Refused(PermissionError):
    """Something that the grader does not let a solution do."""


class TimeLimit(BaseException):
    """The time is up; not an Exception, so that a solution's ``except Exception`` does not swallow it."""


class Reporter:
    """Writes events, one line of JSON each, with the stage at which they happened."""

    def __init__(self, stream: Any, path: str) -> None:
        self.stream, self.path = stream, path
        self.stage: dict[str, Any] = {"step": "load", "case": None}
        self.warned: list[dict[str, Any]] = []

    def say(self, event: str, **values: Any) -> None:
        self.stream.write(json.dumps({"event": event, **self.stage, **values}) + "\n")
        self.stream.flush()

    def enter(self, step: str, case: int | None) -> None:
        self.stage = {"step": step, "case": case}
        self.say("stage")

    def failed(self, error: BaseException) -> None:
        line = self._line_of(error.__traceback__)
        self.say("failed", type=type(error).__name__, message=str(error)[:2000], line=line)

    def refuse(self, why: str) -> None:
        """Tell, and raise Refused; told even if the learner's code catches what is raised."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename != self.path and frame.f_back is not None:
            frame = frame.f_back
        self.say("refused", message=why, line=frame.f_lineno if frame.f_code.co_filename == self.path else None)
        raise Refused(why)

    def warn(self, message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        """In the place of warnings.showwarning: collect the first few."""
        note = {"message": str(message)[:200], "line": lineno if filename == self.path else None}
        if note not in self.warned and len(self.warned) < 5:
            self.warned.append(note)

    def _line_of(self, traceback: TracebackType | None) -> int | None:
        """The last line of the learner's file that an error passed through."""
        line = None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.path:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        return line


class NoAnswers:
    """An import hook: libraries that hold or compute the answer are not there."""

    def __init__(self, reporter: Reporter, banned: Iterable[str]) -> None:
        self._reporter, self._banned = reporter, frozenset(banned)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self._banned:
            self._reporter.refuse(f"imports {name}")


def watch(reporter: Reporter, secret: str) -> None:
    """Refuse other processes, the network, changing files, and reading below the folder ``secret``."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in STARTS:
            reporter.refuse("starts another program")
        elif event in CHANGES:
            reporter.refuse(f"changes files ({event})")
        elif event in NETWORK:
            reporter.refuse("opens a network connection")
        elif event == "open" and isinstance(args[0], str | bytes):
            name = os.path.abspath(os.fsdecode(args[0]))
            if (args[2] or 0) & WRITING and name != os.devnull:
                reporter.refuse(f"opens {os.path.basename(name)} for writing")
            if name.startswith(secret) and not name.startswith(HERE):
                reporter.refuse("reads npformer's own code")

    sys.addaudithook(hook)


def limit(seconds: float, memory: int) -> None:
    """Bound time, memory (bytes) and the size of files, where the system can."""

    def time_is_up(number: int, frame: Any) -> None:
        raise TimeLimit("the time is up")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, time_is_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        import resource
    except ImportError:  # not on this system: the clock of the other process remains
        return
    for kind, value in (
        (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(seconds) + 10), (resource.RLIMIT_NPROC, 0),
    ):  # fmt: skip
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))
