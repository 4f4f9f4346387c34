"""Durations by a clock that may stand still or go backwards, for example when a virtual machine is moved.

All durations are measured here. None is zero or negative, so every rate is finite or, if unknown, NaN.
"""

from __future__ import annotations

import math
import time

TICK = 1e-9  # seconds: the resolution of time.perf_counter, and the shortest duration that is reported


def now() -> float:
    """The current time in seconds. Only differences between two of these have a meaning."""
    return time.perf_counter()


def wall_clock() -> float:
    """The time of day in seconds since 1970, to the millisecond."""
    return round(time.time(), 3)


def since(began: float) -> float:
    """Seconds from that moment to this one, at least TICK."""
    return max(time.perf_counter() - began, TICK)


def rate(amount: float, began: float) -> float:
    """amount per second since that moment, or NaN (unknown) if the clock has not advanced."""
    taken = time.perf_counter() - began
    return amount / taken if taken > 0 else math.nan


def pause(seconds: float) -> None:
    """Let others run for so long; with 0 whoever is ready."""
    time.sleep(seconds)
