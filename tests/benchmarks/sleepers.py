"""Contenders that do nothing but take time, or fail: for tests of the harness."""

from __future__ import annotations

import sys
import time

from benchmarks.tasks import Contender, Task


class FakeTime:
    """Stands for the module time in a contender's process: it passes in naps, and nowhere else."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return time.process_time()


def sleeper(seconds: float) -> Contender:
    """Sleeps, so long to the tick by the clock it is measured with; values: (start, end), as all processes see it."""
    clock = vars(sys.modules["__main__"])["time"] = FakeTime()

    def nap() -> list[float]:
        start = time.monotonic()
        time.sleep(seconds)
        clock.now += seconds
        print("what a library prints")
        return [start, time.monotonic()]

    def make() -> Task:
        return nap

    return Contender({"threads": "1"}, {"nap": make}, {"seconds": seconds})


def hog(megabytes: int) -> Contender:
    """Takes memory and gives it back."""
    return Contender({}, {"nap": lambda: lambda: len(bytes(megabytes * 10**6).replace(b"\0", b"1"))})


def crasher() -> Contender:
    """Ends in the middle of its first task."""

    def crash():
        print("the reason why", file=sys.stderr)
        raise SystemExit(7)

    return Contender({}, {"nap": lambda: crash})
