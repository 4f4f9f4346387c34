"""The table of detections: which check notices which bug, its message, and which checks are indispensable.

A check that never runs the changed code cannot notice the change, so it is recorded which check runs which function.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import get_backend
from npformer.errors import GradientError
from npformer.io.progress_bar import watched
from npformer.lab.mistake import Mistake
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.checks import Check, Program, all_checks
from npformer.lab.museum.diagnose import diagnosis_of
from npformer.lab.museum.empty_tests import EMPTY_TESTS
from npformer.lab.museum.patch import noted, patched


class Prepared(NamedTuple):
    """The checks, run on the right program."""

    checks: tuple[Check, ...]
    reached: dict[str, tuple[frozenset[str], ...]]  # name of each check -> the targets that each of its parts runs

    def concerned(self, bug: Mistake) -> list[tuple[Check, list[int]]]:
        """The checks that run a target of the bug, each with those of its parts that do."""
        changed = bug.targets
        pairs = [
            (check, [i for i, ran in enumerate(self.reached[check.name]) if ran & changed]) for check in self.checks
        ]
        return [(check, parts) for check, parts in pairs if parts]


def prepare(checks: Iterable[Check], bugs: Iterable[Mistake]) -> Prepared:
    """Run all checks on the right program, and record which targets of the bugs' edits run.

    Raises GradientError if a check fails on the correct program: checks that fail without a bug would
    detect every bug, and prove nothing.
    """
    backend = get_backend("numpy", dtype="float64", kernels="plain", threads=1)
    checks, reached = tuple(checks), {}
    with noted({target for bug in bugs for target in bug.targets}) as ran:
        right = Program(backend, ran=ran)
        for check in watched(checks, "checks without a bug", name=lambda check: check.name):
            reached[check.name] = tuple(_reached(check, i, right, ran) for i in range(len(check.parts)))
    return Prepared(checks, reached)


def _reached(check: Check, part: int, right: Program, ran: set[str]) -> frozenset[str]:
    ran.clear()
    problems = check(right, [part])
    if problems:
        raise GradientError(f"{check.name}: expected it to hold on npformer itself, but {problems[0]}")
    return frozenset(ran)


@dataclass(frozen=True)
class Detections:
    """The results of all checks on one bug."""

    bug: Mistake
    tried: int  # number of checks that run the changed code
    problems: dict[str, str]  # name of each failing check -> its first finding
    diagnosis: str  # in a sentence

    def survives(self, without: Sequence[str] = ()) -> bool:
        """Whether no check fails, apart from those in ``without``."""
        return not (self.problems.keys() - set(without))

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        e = self.bug
        return {
            "id": e.id, "category": e.category, "title": e.title, "sources": list(e.sources),
            "checks_tried": self.tried,
            "detected_by": self.problems, "diagnosis": self.diagnosis, "survives": self.survives(),
        }  # fmt: skip


def detection_table(bugs: Sequence[Mistake]) -> Iterator[Detections]:
    """Run all checks against each bug, in order, in as many processes as there are cores, at most 4."""
    workers = min(4, len(os.sched_getaffinity(0)))
    if workers <= 1 or len(bugs) < 4:
        yield from map(examine, bugs)
        return
    context = multiprocessing.get_context("spawn")  # so that no held lock of this process is copied
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(examine, bugs)


def examine(bug: Mistake) -> Detections:
    """Run every check that the bug concerns while the bug is in the program."""
    if bug.test:
        return _examine_test(bug)
    chosen = prepared().concerned(bug)
    with patched(bug.edits) as backend:
        program = Program(backend)
        by_check = {
            check.name: check(program, parts)
            for check, parts in watched(chosen, f"checks with {bug.id}", name=lambda chosen: chosen[0].name)
        }
    problems = {name: lines[0] for name, lines in by_check.items() if lines}
    return Detections(bug, len(chosen), problems, diagnosis_of(bug, problems))


#: The check for tests that cannot fail: gradcheck's refusal of a vacuous check, or its verdict.
TEST_GUARD = "the checker's answer"


def _examine_test(bug: Mistake) -> Detections:
    """Run a test that cannot fail on the wrong kernel, and npformer's checker on the same kernel."""
    test = EMPTY_TESTS[bug.test]
    with patched(bug.edits), np.errstate(all="ignore"):
        if not test.passes():
            raise GradientError(f"{bug.id}: expected the test to pass on the wrong kernel, but it fails")
        answer = test.answer()
    return Detections(bug, 1, {TEST_GUARD: answer} if answer else {}, answer)


@cache
def prepared() -> Prepared:
    """All checks, run on the program without a bug; GradientError if one fails there."""
    return prepare(all_checks(), BUGS)


def only_detectors(table: Sequence[Detections]) -> dict[str, list[str]]:
    """Name of each check -> ids of the bugs that no other check detects, which would survive without it."""
    by_detector: dict[str, list[str]] = {}
    for detections in table:
        if len(detections.problems) == 1:
            by_detector.setdefault(next(iter(detections.problems)), []).append(detections.bug.id)
    return by_detector
