"""How many changes a search tries, and for how long."""

from __future__ import annotations

import contextlib
import sys

from npformer.io.progress_bar import Bar
from npformer.io.seconds import now

#: The most changes that are tried, and for how long; after a moment with a bar.
MOST_CHANGES, SECONDS, SECONDS_WITH_KERNELS, MOMENT = 150_000, 10.0, 30.0, 2.0


class Budget:
    """Counts the changes and the time; draws a bar on a terminal."""

    def __init__(self, kept: contextlib.ExitStack) -> None:
        self._began, self._kept, self.tried, self.seen = now(), kept, 0, 0
        self._bar: Bar | None = None
        self.is_left, self.with_kernels = True, False

    @property
    def seconds(self) -> float:
        return SECONDS_WITH_KERNELS if self.with_kernels else SECONDS

    def taken(self) -> float:
        return now() - self._began

    def allows_one(self) -> bool:
        """Whether one more change is tried."""
        self.seen += 1
        self.is_left = self.is_left and self.tried < MOST_CHANGES and self.taken() < self.seconds
        if not self.is_left:
            return False
        if self.taken() > MOMENT:
            self._bar = self._bar or self._kept.enter_context(Bar("looking for the cause", MOST_CHANGES, sys.stderr))
            self._bar.reach(self.tried)
        self.tried += 1
        return True
