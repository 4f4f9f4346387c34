"""Bounds on the process that runs a user's code, and which code there is not the user's."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from typing import Any

#: The folder of the program that runs here.
OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


class TimeLimit(BaseException):
    """The time is up; not an Exception, so that a user's ``except Exception`` does not catch it."""


def library() -> tuple[str, ...]:
    """The folders of code that is not the user's; call it before the user's folder is on sys.path."""
    return (*(os.path.join(path, "") for path in sys.path if path), OWN, "<frozen ")


def limit(seconds: float, memory: int, is_alone: bool = True) -> None:
    """Bound time and memory (bytes); is_alone: no files are written, no processes started."""

    def time_is_up(number: int, frame: Any) -> None:
        raise TimeLimit("the time is up")

    signal.signal(signal.SIGALRM, time_is_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    alone = ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NPROC, 0)) if is_alone else ()
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(seconds) + 10),
        *alone,
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))
