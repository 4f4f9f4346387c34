"""The museum's bugs as explanations: a user's check names the bug that the user made.

``npf.gradcheck`` uses them if a checked pair replaces an operation of npformer, after the generic mistakes
of ``check/diagnosis/mutants.py``; a bug may combine several of these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from npformer import functional
from npformer.check.diagnosis.mutants import Mutant, rebuilt
from npformer.lab.museum.bug import Bug
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.patch import PatchError, changed_functions


def explanations(op: str) -> list[Mutant]:
    """The backward of a named operation with each bug that changes it or a backward that it calls."""
    backward = getattr(functional, f"{op}_backward")
    within = {backward.__name__, *backward.__code__.co_names}
    mutants = []
    for bug in BUGS:
        if {target.rpartition(":")[2] for target in bug.targets} <= within and _is_of_functional(bug):
            with suppress(PatchError):  # the operation has changed, so its bugs explain nothing
                mutants.append(_explanation(bug, backward))
    return mutants


def _is_of_functional(bug: Bug) -> bool:
    """Whether the bug changes only backward functions of ``functional``."""
    return not bug.test and all(
        target.startswith("npformer.functional.") and target.endswith("_backward") for target in bug.targets
    )


def _explanation(bug: Bug, backward: Callable[..., Any]) -> Mutant:
    changed = {function.__name__: function for function in changed_functions(bug.edits)}
    edited = changed.pop(getattr(backward, "__name__", ""), None)
    build = rebuilt(edited or backward, changed) if changed else edited
    assert build is not None
    right, wrong = (formula.splitlines()[0] for formula in (bug.right, bug.wrong))
    line = inspect.unwrap(backward).__code__.co_firstlineno
    return Mutant(f"museum bug {bug.id}", backward.__name__, line, right, wrong, build, "")
