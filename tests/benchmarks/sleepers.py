"""Contenders that only take time, or fail, for tests of the harness."""

import itertools
import os
import sys
import time

from benchmarks.harness import Contender
from benchmarks.own.model import take_core


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

    return Contender({"threads": "1"}, {"nap": lambda: nap}, {"seconds": seconds})


def hog(megabytes):
    """Allocates memory and frees it."""
    return Contender({}, {"nap": lambda: lambda: len(bytes(megabytes * 10**6).replace(b"\0", b"1"))})


def crasher():
    """Ends in the middle of its first task."""

    def crash():
        print("the reason why", file=sys.stderr)
        os._exit(7)

    return Contender({}, {"nap": lambda: crash})


def rank():
    """One of several that work together: its losses are its number, then one less, and so on."""
    number = int(os.environ["RANK"])
    take_core(number)
    losses = itertools.count(number, -1)
    facts = {"loss": number, "rank": number}
    return Contender({}, {"nap": lambda: lambda: next(losses)}, facts, on_device=lambda: {"rank": number})
