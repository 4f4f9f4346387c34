"""Which check runs which function: a check that never runs the changed code cannot notice the change."""

from __future__ import annotations

from collections.abc import Iterable

from npformer.backend import get_backend
from npformer.errors import GradientError
from npformer.lab.museum.battery import Check
from npformer.lab.museum.exhibit import Exhibit
from npformer.lab.museum.patch import noted


def reach(checks: Iterable[Check], exhibits: Iterable[Exhibit]) -> dict[str, frozenset[str]]:
    """Name of each check -> which targets of the exhibits' edits it runs.

    Raises GradientError if a check fails on the correct program: a battery that fails without a bug would
    kill every mutant, and prove nothing.
    """
    backend = get_backend("numpy", dtype="float64", bodies="plain", threads=1)
    found = {}
    with noted({edit.target for exhibit in exhibits for edit in exhibit.edits}) as ran:
        for check in checks:
            ran.clear()
            problems = check(backend)
            if problems:
                raise GradientError(f"{check.name}: expected it to hold on npformer itself, but {problems[0]}")
            found[check.name] = frozenset(ran)
    return found


def concerned(exhibit: Exhibit, checks: Iterable[Check], reached: dict[str, frozenset[str]]) -> list[Check]:
    """The checks that run something that the exhibit changes."""
    changed = {edit.target for edit in exhibit.edits}
    return [check for check in checks if changed & reached[check.name]]
