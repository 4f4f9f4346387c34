"""How long something took, by a clock that may stand still or go back, as a moved virtual machine's does.

Whoever measures a duration asks here, so that none is zero or negative and every rate is finite, or unknown.
"""

from __future__ import annotations

import math
import time

TICK = 1e-9  # seconds: what time.perf_counter tells apart, and the least that anything takes


def now() -> float:
    """A moment, in seconds; only what lies between two has a meaning."""
    return time.perf_counter()


def since(began: float) -> float:
    """Seconds from that moment to this one, at least TICK."""
    return max(time.perf_counter() - began, TICK)


def rate(amount: float, began: float) -> float:
    """amount for each second since that moment; NaN, which is unknown, if the clock has not gone on."""
    taken = time.perf_counter() - began
    return amount / taken if taken > 0 else math.nan
