"""What the museum shows of each bug: what finds it, and short runs with and without it.

``python -m benchmarks.museum`` makes it and writes exhibits.jsonl: a line for each run without a bug, then a line for
each bug, with the digest of what it was made of: what was stored of a bug that has changed since is not shown.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from npformer.errors import DataError
from npformer.lab.mistake import Mistake
from npformer.lab.museum.comparison import Comparison, End, TrainingCourse

PLACE = Path(__file__).parent / "exhibits.jsonl"

Line: TypeAlias = Mapping[str, Any]


class Exhibit(NamedTuple):
    """What finds the bug first, what it says, and its diagnosis, if any; the runs, None if training cannot show it."""

    found_by: str
    says: str
    diagnosis: str
    comparison: Comparison | None


def stored(bug: Mistake) -> Exhibit:
    """What is stored of the bug. Raises DataError if nothing is, of the bug as it is now."""
    line = lines().get(bug.id)
    if line is None or line["of"] != digest(bug):
        raise DataError(f"{bug.id}: nothing is stored of this bug as it is now; make it: python -m benchmarks.museum")
    runs = None if bug.run is None else Comparison(_course(lines()[run_name(bug.run)]), _course(line))
    return Exhibit(line["found_by"], line["says"], line["diagnosis"], runs)


@cache
def lines() -> Mapping[str, Line]:
    """The stored lines, by the bug's id or the run's options."""
    made = map(json.loads, PLACE.read_text(encoding="utf-8").splitlines())
    return {line.get("bug") or line["run"]: line for line in made}


def digest(bug: Mistake) -> str:
    """Of everything that a bug's line is made of, except the program itself."""
    return hashlib.sha256(repr((bug.edits, bug.run, bug.test)).encode()).hexdigest()[:12]


def run_name(options: Mapping[str, Any]) -> str:
    """The name of the run without a bug that has these options."""
    return json.dumps(options, sort_keys=True)


def _course(line: Line) -> TrainingCourse:
    ends = tuple(End(*map(_number, end)) for end in line["ends"])
    return TrainingCourse(tuple(map(_number, line["losses"])), ends, line["trouble"])


def _number(stored: float | None) -> float:
    return math.nan if stored is None else stored
