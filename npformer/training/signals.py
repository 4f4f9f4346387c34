"""Stopping in order: a signal is noted, the step in hand is finished, the state is saved, then we go."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Ctrl-C, kill, and a terminal that is closed.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Which signal has asked us to stop, if any."""

    number: int | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note SIGINT, SIGTERM and SIGHUP instead of dying of them; a second one is not held back.

    One that is ignored, as a shell does for its background jobs, stays ignored. Outside the main
    thread, where Python allows no handlers, nothing is noted.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}

    def note(number: int, frame: FrameType | None) -> None:
        request.number = number
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
