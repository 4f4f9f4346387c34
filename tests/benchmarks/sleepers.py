"""Contenders that do nothing but take time, or fail: for tests of the harness."""

from __future__ import annotations

import sys
import time

from benchmarks.tasks import Contender, Task


def sleeper(seconds: float) -> Contender:
    """Sleeps; each value is (start, end) on the clock that all processes share."""

    def nap() -> list[float]:
        start = time.time()
        time.sleep(seconds)
        print("what a library prints")
        return [start, time.time()]

    def make() -> Task:
        return nap

    return Contender({"threads": "1"}, {"nap": make}, {"seconds": seconds})


def hog(megabytes: int) -> Contender:
    """Takes memory and gives it back."""
    return Contender({}, {"nap": lambda: lambda: len(bytes(megabytes * 10**6).replace(b"\0", b"1"))})


def crasher() -> Contender:
    """Ends in the middle of its first task."""

    def crash() -> None:
        print("the reason why", file=sys.stderr)
        raise SystemExit(7)

    return Contender({}, {"nap": lambda: crash})
