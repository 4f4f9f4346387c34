"""Records which check runs which function: a check that never runs the changed code cannot notice the change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from npformer.backend import Backend, get_backend
from npformer.bar import watched
from npformer.errors import GradientError
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.checks import Check, Program
from npformer.lab.museum.patch import noted


class Prepared(NamedTuple):
    """The checks, run on the right program."""

    checks: tuple[Check, ...]
    right: Program  # its results are valid for a wrong program, too, if no changed target ran
    reached: dict[str, tuple[frozenset[str], ...]]  # name of each check -> the targets that each of its parts runs

    def concerned(self, bug: Bug) -> list[tuple[Check, list[int]]]:
        """The checks that run a target of the bug, each with those of its parts that do."""
        changed = bug.targets
        found = [
            (check, [i for i, ran in enumerate(self.reached[check.name]) if ran & changed]) for check in self.checks
        ]
        return [(check, parts) for check, parts in found if parts]

    def program(self, bug: Bug, backend: Backend) -> Program:
        """The program while the bug is in it."""
        return Program(backend, bug.targets, self.right)


def prepare(checks: Iterable[Check], bugs: Iterable[Bug]) -> Prepared:
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
    return Prepared(checks, right, reached)


def _reached(check: Check, part: int, right: Program, ran: set[str]) -> frozenset[str]:
    ran.clear()
    problems = check(right, [part])
    if problems:
        raise GradientError(f"{check.name}: expected it to hold on npformer itself, but {problems[0]}")
    return frozenset(ran)
