"""Which check runs which function: a check that never runs the changed code cannot notice the change."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from npformer.backend import get_backend
from npformer.errors import GradientError
from npformer.lab.museum.battery import Check
from npformer.lab.museum.exhibit import Exhibit
from npformer.lab.museum.patch import function_at


def reach(checks: Iterable[Check]) -> dict[str, frozenset[CodeType]]:
    """Name of each check -> the code that it runs. Raises GradientError if a check fails on the correct program.

    A battery that fails without a bug would kill every mutant, and prove nothing.
    """
    backend = get_backend("numpy", dtype="float64", bodies="plain", threads=1)
    found = {}
    for check in checks:
        seen: set[CodeType] = set()

        def note(frame: FrameType, event: str, argument: Any, seen: set[CodeType] = seen) -> None:
            if event == "call":
                seen.add(frame.f_code)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            problems = check(backend)
        finally:
            sys.setprofile(before)
        if problems:
            raise GradientError(f"{check.name}: expected it to hold on npformer itself, but {problems[0]}")
        found[check.name] = frozenset(seen)
    return found


def concerned(exhibit: Exhibit, checks: Iterable[Check], reached: dict[str, frozenset[CodeType]]) -> list[Check]:
    """The checks that run something that the exhibit changes."""
    changed = {function_at(edit.target).__code__ for edit in exhibit.edits}
    return [check for check in checks if changed & reached[check.name]]
