"""What each bug of the museum does to a short training, and which checks find it: the figures of the site's gallery.

    python -m benchmarks.museum_bugs --save benchmarks/results/museum-bugs.json

Training is that of ``npformer museum show``: the same words are reversed with and without the bug. Losses are kept as
the mean over SPAN steps; a loss that is no number is kept as null. Exit 1 if a bug survives all checks.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine, report
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.demonstration import STEPS, Course, compare
from npformer.lab.museum.detections import examine

SPAN = 5  # steps


def main(argv: Sequence[str] | None = None) -> int:
    """Train with and without each bug, run the checks. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.museum_bugs", description=__doc__.partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="only bugs with TEXT in id, category or title")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each training (%(default)s)")
    parser.add_argument("--save", type=Path, metavar="FILE.json", help="where to keep the results")
    args = parser.parse_args(argv)
    found = document([bug for bug in BUGS if bug.matches(args.only)], args.steps, args.save)
    survivors = [row["id"] for row in found["results"] if row["survives"]]
    print(f"bugs: {len(found['results'])}; survivors: {', '.join(survivors) or 'none'}")
    return 1 if survivors else 0


def document(bugs: Sequence[Bug], steps: int, save: Path | None = None) -> dict[str, Any]:
    """All results, kept after each bug; right trainings by the options that they share."""
    found: dict[str, Any] = {
        "benchmark": "museum_bugs", "machine": machine.describe([], True, "numpy", ["float32"]),
        "settings": {"steps": steps, "span": SPAN}, "right": {}, "results": [],
    }  # fmt: skip
    for bug, (row, right) in zip(bugs, each(bugs, steps), strict=True):
        if right is not None:
            row["right"] = repr(sorted((bug.run or {}).items()))
            found["right"][row["right"]] = right
        found["results"].append(row)
        report.keep(found, save)
        print(bug.id, flush=True)
    return found


def each(bugs: Sequence[Bug], steps: int) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """What ``result`` says of each bug, by a process for each core."""
    if len(bugs) < 4:
        yield from map(partial(result, steps=steps), bugs)
        return
    with ProcessPoolExecutor(machine.cores(), mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(result, steps=steps), bugs)


def result(bug: Bug, steps: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(what the checks say, with the wrong training; the right one). None: training does not show this bug."""
    row = examine(bug).to_dict()
    if bug.run is None:
        return row, None
    both = compare(bug, steps)
    return row | {"wrong": course(both.wrong)}, course(both.right)


def course(of: Course) -> dict[str, Any]:
    """A training, its losses thinned out."""
    return {"said": str(of), "losses": [rounded(span) for span in spans(of.losses)]}


def spans(losses: Sequence[float]) -> Iterable[Sequence[float]]:
    """The losses, SPAN steps at a time."""
    return (losses[i : i + SPAN] for i in range(0, len(losses), SPAN))


def rounded(losses: Sequence[float]) -> float | None:
    """The mean with four digits, or None if it is no finite number."""
    mean = math.fsum(losses) / len(losses) if all(map(math.isfinite, losses)) else math.nan
    return float(f"{mean:.4g}") if math.isfinite(mean) else None


if __name__ == "__main__":
    raise SystemExit(main())
