"""Stopping in order: a signal is noted, the step in hand is finished, the state is saved, then we go.

Python raises KeyboardInterrupt between any two instructions of the main thread, so also between an update of
the parameters and the count of it. ``HeldInterrupt`` keeps a step whole.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

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


class HeldInterrupt:
    """Within it Ctrl-C (SIGINT) is noted, and handed to the handler that was there where nothing is half done.

    That is where ``firmly`` begins, which is for what must not be left half done, and where the whole ends. A
    second one is handed on at once, ``firmly`` apart: so a step that takes long, or hangs, can be left. A SIGINT
    that is ignored stays ignored. Other threads than the main one never see a KeyboardInterrupt, and hold nothing.
    """

    def __init__(self) -> None:
        self._handler: Any = None  # that was there
        self._noted = 0
        self._is_firm = False

    def __enter__(self) -> None:
        if threading.get_ident() == threading.main_thread().ident:
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler, self._noted, self._is_firm = handler, 0, False
                signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *error: object) -> None:
        self._hand_on()

    @contextmanager
    def firmly(self) -> Iterator[None]:
        """Obey one that was noted, then hold even a second one. Within itself it does nothing."""
        before = self._is_firm
        if self._noted and not before:
            self._hand_on()
            self.__enter__()  # the handler that was there has only noted it, too
        self._is_firm = True
        try:
            yield
        finally:
            self._is_firm = before

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted += 1
        if self._noted > 1 and not self._is_firm:
            self._hand_on()

    def _hand_on(self) -> None:
        """Put the handler back, and give it what was noted."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self._handler, noted, self._noted = None, self._noted, 0
            for _ in range(noted):
                signal.raise_signal(signal.SIGINT)
