"""Orderly stopping: a signal is noted, the current step is finished, the state is saved, and training ends with 130.

A step includes the evaluation that is due after it. After the last step nothing is left to stop.

``Trainer`` (``trainer.py``) saves and raises Interrupted after the step. A second signal ends the training without
saving, though never amid an update, which ``training/held_interrupt.py`` protects.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

#: Ctrl-C, kill, and a closed terminal.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """The signal that requested a stop, if any."""

    number: int | None = None


@contextmanager
def heard(note: Callable[[int], None], *, once: bool) -> Iterator[None]:
    """Within this context SIGINT, SIGTERM and SIGHUP are noted instead of delivered; once: the first of them alone.

    An ignored signal stays ignored; a shell ignores SIGINT for background jobs.
    """
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def hear(number: int, frame: FrameType | None) -> None:
        note(number)
        if once:
            restore()

    for number in before:
        signal.signal(number, hear)
    try:
        yield
    finally:
        restore()


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note the first signal instead of ending. Outside the main thread, where Python allows no handlers, none is."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    with heard(partial(setattr, request, "number"), once=True):
        yield request
