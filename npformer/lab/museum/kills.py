"""The kill table: which check notices which bug, what it says of it, and which check is the only one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from npformer.errors import GradientError
from npformer.lab.museum.battery import Check, battery
from npformer.lab.museum.diagnose import diagnosis_of
from npformer.lab.museum.empty_tests import EMPTY_TESTS
from npformer.lab.museum.exhibit import Exhibit
from npformer.lab.museum.patch import patched
from npformer.lab.museum.reach import concerned, reach
from npformer.lab.museum.rooms import EXHIBITS


@dataclass(frozen=True)
class Kills:
    """What the battery says of one exhibit."""

    exhibit: Exhibit
    tried: int  # checks that run the changed code
    problems: dict[str, str]  # name of each check that fails -> the first thing that it found
    diagnosis: str  # in a sentence

    def survives(self, without: Sequence[str] = ()) -> bool:
        """Whether no check fails, those in ``without`` left out."""
        return not (self.problems.keys() - set(without))

    def to_dict(self) -> dict[str, Any]:
        """Everything, for machines."""
        e = self.exhibit
        return {
            "id": e.id, "room": e.room, "title": e.title, "sources": list(e.sources), "checks_tried": self.tried,
            "killed_by": self.problems, "diagnosis": self.diagnosis, "survives": self.survives(),
        }  # fmt: skip


def kill_table(exhibits: Sequence[Exhibit], workers: int | None = None) -> Iterator[Kills]:
    """Run the battery against each exhibit, in order. workers: processes (default: the cores, at most 4)."""
    workers = min(4, len(os.sched_getaffinity(0))) if workers is None else workers
    if workers <= 1 or len(exhibits) < 4:
        yield from map(examine, exhibits)
        return
    context = multiprocessing.get_context("spawn")  # no lock of this process is copied half-held
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(examine, exhibits)


def examine(exhibit: Exhibit) -> Kills:
    """Run every check that the exhibit concerns while its bug is in the program."""
    if exhibit.test:
        return _examine_test(exhibit)
    checks, reached = prepared()
    chosen = concerned(exhibit, checks, reached)
    with patched(exhibit.edits) as backend:
        found = {check.name: check(backend) for check in chosen}
    problems = {name: lines[0] for name, lines in found.items() if lines}
    return Kills(exhibit, len(chosen), problems, diagnosis_of(exhibit, problems))


#: The check that answers to tests: gradcheck's refusal of what proves nothing, or its verdict.
TEST_GUARD = "the checker's answer"


def _examine_test(exhibit: Exhibit) -> Kills:
    """Run a test that cannot fail on the wrong kernel, and ask npformer's checker the same question."""
    test = EMPTY_TESTS[exhibit.test]
    with patched(exhibit.edits), np.errstate(all="ignore"):
        if not test.passes():
            raise GradientError(f"{exhibit.id}: expected the test to pass on the wrong kernel, but it fails")
        answer = test.answer()
    return Kills(exhibit, 1, {TEST_GUARD: answer} if answer else {}, answer)


@cache
def prepared() -> tuple[tuple[Check, ...], dict[str, frozenset[str]]]:
    """The battery, and for the name of each check which targets it runs; GradientError if one fails without a bug."""
    checks = tuple(battery())
    return checks, reach(checks, EXHIBITS)


def only_killers(table: Sequence[Kills]) -> dict[str, list[str]]:
    """Name of each check -> ids of the exhibits that nothing else kills: what would survive without it."""
    found: dict[str, list[str]] = {}
    for kills in table:
        if len(kills.problems) == 1:
            found.setdefault(next(iter(kills.problems)), []).append(kills.exhibit.id)
    return found
