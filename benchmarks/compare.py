"""Contenders that took turns at one task, row by row: times, speed-ups, memory.

A round's time is the median of its steps. Each round is compared with the rounds it took turns
with, so a temporary slowdown of the machine affects both sides of a ratio.
"""

import statistics
from typing import NamedTuple

import numpy as np

from benchmarks import report
from npformer.io.percent import percent

TOO_BUSY = 0.1  # share of the cores
PEER = "torch"  # the prefix of peers' names


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


def best_peer(measured):
    """The peer with the lowest median time; None if there is no peer."""
    peers = [name for name in measured if name.startswith(PEER)]
    return min(peers, key=lambda name: times(measured[name].rounds).median, default=None)


def rows(children, measured):
    """A JSON row for each contender that has the task, in the order of children; times in seconds."""
    peer, lines = best_peer(measured), []
    for child in children:
        if child.name not in measured:
            continue
        rounds, memory = measured[child.name].rounds, child.memory()
        lines.append(
            {"name": child.name, **child.about, **times(rounds)._asdict(),
             "times_as_fast": ratio(rounds, measured[peer].rounds)._asdict() if peer else None,
             "round_medians": [times([one]).median for one in rounds],
             "others_share": others_share(measured[child.name]),
             "peak_bytes": memory["peak"] - memory["imports"], "imports_bytes": memory["imports"], **child.device()}
        )  # fmt: skip
    return lines


def others_share(measured):
    """The share of the machine's cores that other processes used meanwhile; None if it is not known."""
    used, total = (sum(seconds) for seconds in zip(*measured.others, strict=True))
    return used / total if total else None


def others(result_rows):
    """A warning for the report if other processes used so much that the ratios cannot be trusted; else nothing."""
    shares = {row["name"]: row["others_share"] or 0.0 for row in result_rows}
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] < TOO_BUSY:
        return []
    text = (
        f"DISTURBED: other processes used {percent(shares[worst], 0)} of the cores while {worst} worked. That slows "
        "a pool of threads that wait for each other (PyTorch's) more than others: measure again when the machine is "
        "free."
    )
    return [report.wrapped(text)]


def cells(row):
    """The last cells of every table row: peak MB, imports MB, steps."""
    steps = f"{row['steps']} in {row['rounds']}"
    return [report.megabytes(row["peak_bytes"]), report.megabytes(row["imports_bytes"]), steps]


def threads(result_rows):
    """A line that names each contender's number of threads."""
    return report.wrapped("threads: " + "; ".join(f"{row['name']}: {row['threads']}" for row in result_rows))
