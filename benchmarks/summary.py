"""Statistics over rounds: the median, the best, and the speed-up with its spread.

A round's time is the median of its steps. Each round is compared with the rounds it took turns
with, so a temporary slowdown of the machine affects both sides of a ratio.
"""

import statistics
from typing import NamedTuple

import numpy as np


class Times(NamedTuple):
    """One contender's times, in seconds."""

    median: float  # of all steps
    best: float  # single step
    rounds: int
    steps: int


class Ratio(NamedTuple):
    """The speed-up: the median over rounds, and the quartiles around it."""

    median: float
    low: float
    high: float


def times(rounds):
    """Summary of one contender's rounds. Raises ValueError if there are no rounds."""
    steps = [seconds for one in rounds for seconds in one]
    if not steps:
        raise ValueError("rounds: expected at least one round of at least one step, got none")
    return Times(statistics.median(steps), min(steps), len(rounds), len(steps))


def ratio(ours, theirs):
    """Their time over ours, round by round: 2 means that ours is twice as fast as theirs."""
    each = [statistics.median(b) / statistics.median(a) for a, b in zip(ours, theirs, strict=True)]
    return Ratio(*np.quantile(each, (0.5, 0.25, 0.75)).tolist())
