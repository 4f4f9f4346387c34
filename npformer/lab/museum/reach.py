"""Which check runs which function: a check that never runs the changed code cannot notice the change."""

from __future__ import annotations

from collections.abc import Iterable

from npformer.backend import get_backend
from npformer.errors import GradientError
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.checks import Check
from npformer.lab.museum.patch import noted


def reach(checks: Iterable[Check], bugs: Iterable[Bug]) -> dict[str, frozenset[str]]:
    """Name of each check -> which targets of the bugs' edits it runs.

    Raises GradientError if a check fails on the correct program: checks that fail without a bug would
    kill every mutant, and prove nothing.
    """
    backend = get_backend("numpy", dtype="float64", kernels="plain", threads=1)
    found = {}
    with noted({edit.target for bug in bugs for edit in bug.edits}) as ran:
        for check in checks:
            ran.clear()
            problems = check(backend)
            if problems:
                raise GradientError(f"{check.name}: expected it to hold on npformer itself, but {problems[0]}")
            found[check.name] = frozenset(ran)
    return found


def concerned(bug: Bug, checks: Iterable[Check], reached: dict[str, frozenset[str]]) -> list[Check]:
    """The checks that run something that the bug changes."""
    changed = {edit.target for edit in bug.edits}
    return [check for check in checks if changed & reached[check.name]]
