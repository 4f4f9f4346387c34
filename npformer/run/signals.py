"""Orderly stopping: a signal is noted, the current step is finished, the state is saved, and training ends with 130.

A step includes the evaluation that is due after it. After the last step nothing is left to stop.

``Trainer`` (``trainer.py``) saves and raises Interrupted after the step. A second signal ends the training without
saving, though never amid an update, which ``training/held_interrupt.py`` protects.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Ctrl-C, kill, and a closed terminal.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """The signal that requested a stop, if any."""

    number: int | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note SIGINT, SIGTERM and SIGHUP instead of ending; a second signal is delivered.

    An ignored signal stays ignored; a shell ignores SIGINT for background jobs. Outside the main
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
        for other, handler in before.items():
            signal.signal(other, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
