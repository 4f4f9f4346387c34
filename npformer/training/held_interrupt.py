"""Ctrl-C waits until a step's state is consistent.

Python can raise KeyboardInterrupt between any two instructions of the main thread, for example between an update of
the parameters and the increment of the step number. ``HeldInterrupt`` prevents that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class HeldInterrupt:
    """A context that holds back Ctrl-C (SIGINT) and passes it to the previous handler when the state is consistent.

    It is passed on where ``firmly`` begins, which protects an update that must be completed, and where the context
    ends. A second SIGINT is passed on at once, except within ``firmly``, so that a slow or hanging step can be stopped.
    An ignored SIGINT stays ignored. Threads other than the main one get no KeyboardInterrupt, so they hold nothing.
    """

    def __init__(self) -> None:
        self._handler: Any = None  # the previous handler
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
        """Deliver a noted SIGINT, then hold all others until the end. Nested calls do nothing."""
        before = self._is_firm
        if self._noted and not before:
            self._hand_on()
            self.__enter__()  # nothing was raised, so the previous handler only took note: hold again
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
        """Restore the handler, and pass it a noted signal."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self._handler, noted, self._noted = None, self._noted, 0
            for _ in range(noted):
                signal.raise_signal(signal.SIGINT)
