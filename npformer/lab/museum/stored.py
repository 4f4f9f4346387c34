"""What the museum shows of each bug, stored: the findings of the checks, and the course of the two short runs,
and how such runs end with each seed.

``python -m benchmarks.museum`` writes exhibits.jsonl: a line for each run without a bug, then a line for each bug. A
line has the digest of what it was made of, so what was stored of a bug that has changed since is not shown.

A loss is stored with four significant digits, as many as a picture can show. A run computes in float32, so its last
bits depend on the processor.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from npformer.io.percent import finite
from npformer.lab.mistake import Mistake
from npformer.lab.museum import demonstration
from npformer.lab.museum.demonstration import Comparison, Course, Ends, ends, right_course, wrong_course
from npformer.lab.museum.detections import Detections, examine

PLACE = Path(__file__).parent / "exhibits.jsonl"
DIGITS = 4

Line: TypeAlias = Mapping[str, Any]


class Exhibit(NamedTuple):
    """The findings of the checks on a bug, and the two runs; None if training cannot show it."""

    detections: Detections
    comparison: Comparison | None


def made(bug: Mistake) -> Exhibit:
    """Run the checks and train, in up to a minute."""
    return Exhibit(examine(bug), None if bug.run is None else demonstration.compare(bug))


def stored(bug: Mistake) -> Exhibit | None:
    """What is stored of the bug as it is now, or None."""
    line = known().get(bug.id)
    if line is None or line["of"] != digest(bug):
        return None
    detections = Detections(bug, line["tried"], line["problems"], line["diagnosis"])
    if bug.run is None:
        return Exhibit(detections, None)
    right = known()[_run(bug.run)]
    return Exhibit(detections, Comparison(_course(right), _course(line), _ends(right), _ends(line)))


def with_bug(lines: Mapping[str, Line], bug: Mistake) -> dict[str, Line]:
    """The lines, with those of a bug: kept if they are of the bug as it is now, else made anew."""
    known = dict(lines)
    if bug.run is not None and _run(bug.run) not in known:
        known[_run(bug.run)] = {"run": _run(bug.run)} | _line(partial(right_course, bug.run))
    if bug.id not in known or known[bug.id]["of"] != digest(bug):
        known[bug.id] = _made_line(bug)
    return known


def as_text(lines: Mapping[str, Line], bugs: Iterable[Mistake]) -> str:
    """The file's text: the lines of the runs without a bug, then those of these bugs, as far as there are any."""
    ordered = list(bugs)
    names = [*dict.fromkeys(_run(bug.run) for bug in ordered if bug.run is not None), *(bug.id for bug in ordered)]
    return "".join(json.dumps(lines[name], ensure_ascii=False) + "\n" for name in names if name in lines)


@cache
def known() -> Mapping[str, Line]:
    """The stored lines, by the bug's id or the run's options."""
    if not PLACE.exists():
        return {}
    lines = [json.loads(line) for line in PLACE.read_text(encoding="utf-8").splitlines()]
    return {line.get("bug") or line["run"]: line for line in lines}


def digest(bug: Mistake) -> str:
    """Of everything that a bug's line is made of, except the program itself."""
    of: tuple[Any, ...] = (bug.edits, bug.run, bug.test, demonstration.MODEL, demonstration.STEPS)
    of += () if bug.run is None else (demonstration.SEEDS,)
    return hashlib.sha256(repr(of).encode()).hexdigest()[:12]


def rounded(loss: float) -> float | None:
    """A loss as it is stored; None if it is not finite."""
    return float(f"{loss:.{DIGITS}g}") if math.isfinite(loss) else None


def _made_line(bug: Mistake) -> dict[str, Any]:
    detections = examine(bug)
    line = {"bug": bug.id, "of": digest(bug), "tried": detections.tried, "problems": detections.problems}
    line |= {"diagnosis": detections.diagnosis}
    return line if bug.run is None else line | _line(partial(wrong_course, bug))


def _run(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)


def _line(train: Callable[..., Course]) -> dict[str, Any]:
    course = train()
    return {
        "exact_match": finite(course.exact_match),
        "trouble": course.trouble,
        "losses": [rounded(loss) for loss in course.losses],
        "ends": [[rounded(value) for value in end] for end in ends(course, lambda seed: train(seed=seed))],
    }


def _ends(line: Line) -> tuple[Ends, ...]:
    return tuple(Ends(*(math.nan if value is None else value for value in end)) for end in line["ends"])


def _course(line: Line) -> Course:
    losses = tuple(math.nan if loss is None else loss for loss in line["losses"])
    exact = line["exact_match"]
    return Course(losses, math.nan if exact is None else exact, line["trouble"])
