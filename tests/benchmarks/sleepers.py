"""Contenders that only take time, or fail, for tests of the harness."""

import itertools
import os
import sys
import time

from benchmarks.group import take_core
from benchmarks.tasks import Contender


class FakeTime:
    """Replaces the module time in a contender's process: time passes only in sleep()."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def process_time(self):
        return time.process_time()


def sleeper(seconds):
    """Sleeps exactly this long by the clock that measures it; values: (start, end) by a clock that processes share."""
    clock = vars(sys.modules["__main__"])["time"] = FakeTime()

    def nap():
        start = time.monotonic()
        time.sleep(seconds)
        clock.now += seconds
        print("what a library prints")
        return [start, time.monotonic()]

    def make():
        return nap

    return Contender({"threads": "1"}, {"nap": make}, {"seconds": seconds})


def hog(megabytes):
    """Allocates memory and frees it."""
    return Contender({}, {"nap": lambda: lambda: len(bytes(megabytes * 10**6).replace(b"\0", b"1"))})


def crasher():
    """Ends in the middle of its first task."""

    def crash():
        print("the reason why", file=sys.stderr)
        raise SystemExit(7)

    return Contender({}, {"nap": lambda: crash})


def rank(number):
    """One of several that work together: its losses are its number, then one less, and so on."""
    made = int(os.environ.get("RANK", number))
    take_core(made)
    losses = itertools.count(made, -1)
    return made, {"loss": made}, lambda: next(losses), lambda: {"rank": made, "cores": len(os.sched_getaffinity(0))}
