"""How many changes a search tries, and for how long; and how much memory and how many lines one of them may take."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from npformer.io.progress_bar import Bar
from npformer.io.seconds import now

#: The most changes that are tried, and for how long; after a moment with a bar.
MOST_CHANGES, SECONDS, SECONDS_WITH_KERNELS, MOMENT = 150_000, 10.0, 30.0, 2.0

#: Bytes beyond what the process has when a search begins; and of the lines that run without a change, with one.
MOST_BYTES, TIMES_LINES, MORE_LINES = 1 << 30, 100, 10_000


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Within this context an allocation beyond MOST_BYTES raises MemoryError, where the system can."""
    try:
        import resource

        with open("/proc/self/statm") as held:
            used = int(held.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = used + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


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
