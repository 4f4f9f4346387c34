"""What the museum shows of each bug: what finds it, and what short runs with and without it show.

In both runs the data, the initial weights and the dropout are the same. The task is to reverse a word of up to six of
eight letters, with a model that two cores train in seconds. Both runs are made again from other weights, on other
words, to tell the effect from chance. A bug has the same effect in a large model, only later and at a higher price.

``python -m benchmarks.museum`` makes it and writes exhibits.jsonl: a line for each run without a bug, then a line for
each bug, with the digest of what it was made of: what was stored of a bug that has changed since is not shown.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from npformer.errors import DataError
from npformer.io.percent import finite, percent
from npformer.lab.mistake import Mistake

STEPS = 250
#: Where a loss ends, seen from others.
PLACES = ABOVE, AMONG, BELOW = "above", "among", "below"
PLACE = Path(__file__).parent / "exhibits.jsonl"

Line: TypeAlias = Mapping[str, Any]


class End(NamedTuple):
    """How a run ends: the mean loss of its last tenth, and its share of held-out words that it decodes rightly."""

    loss: float
    exact_match: float

    def __str__(self) -> str:
        loss = f"loss {self.loss:.3f}" if math.isfinite(self.loss) else "loss not a number"
        found = f", {percent(self.exact_match, 0)} of held-out words right" if math.isfinite(self.exact_match) else ""
        return loss + found


class TrainingCourse(NamedTuple):
    """The losses of one run, in nats per token, NaN after a failure; and how runs end with other seeds, its own first.

    The ends of three seeds all lie above others, or all below, by chance once in ten.
    """

    losses: tuple[float, ...]
    ends: tuple[End, ...]
    trouble: str = ""  # the exception, if one was raised

    def __str__(self) -> str:
        if self.trouble:
            return f"{self.ends[0]}; {self.trouble}"
        if not all(math.isfinite(value) for end in self.ends for value in end):
            return str(self.ends[0])
        losses, matches = zip(*self.ends, strict=True)
        low, high = percent(min(matches), 0).removesuffix(" %"), percent(max(matches), 0)
        found = f"loss {min(losses):.3f} to {max(losses):.3f}, {low} to {high} of held-out words right"
        return f"{found}, over {len(self.ends)} seeds"

    def to_dict(self) -> dict[str, Any]:
        """How it ends, for JSON; NaN becomes None."""
        seeds = [{name: finite(value) for name, value in end._asdict().items()} for end in self.ends]
        return seeds[0] | {"trouble": self.trouble, "seeds": seeds}


class Comparison(NamedTuple):
    """The runs without and with the bug."""

    right: TrainingCourse
    wrong: TrainingCourse

    @property
    def place(self) -> str:
        """Where the losses with the bug end: all above, all below, or among those without it."""
        return _place([end.loss for end in self.wrong.ends], [end.loss for end in self.right.ends])

    @property
    def verdict(self) -> str:
        """What training tells of the bug, in a sentence."""
        missed = _place(*([1 - end.exact_match for end in course.ends] for course in (self.wrong, self.right)))
        if self.place != AMONG:
            alone = "" if missed != AMONG else ". The words do not show it, and for losses chance does so once in ten"
            return f"Each loss with the bug ends {self.place} each without it{alone}."
        if missed != AMONG:
            more = "more" if missed == ABOVE else "fewer"
            return f"The losses do not show the bug, the words do: each run with it misses {more} than each without it."
        return (
            "Runs with the bug end among those without it, so training this short and this small does not show it. "
            "Such bugs get shipped. It takes a check to find them."
        )


def _place(wrong: Sequence[float], right: Sequence[float]) -> str:
    """A run that breaks off has no number, and counts as above."""
    wrong = [number if math.isfinite(number) else math.inf for number in wrong]
    return ABOVE if min(wrong) > max(right) else BELOW if max(wrong) < min(right) else AMONG


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
