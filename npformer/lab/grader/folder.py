"""What a learner's folder holds: the exercises that are begun, and their files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from npformer.errors import DataError
from npformer.lab.grader.exercises import EXERCISES
from npformer.lab.grader.source import LARGEST, Source, imported, read_source

MOST_FILES = 500  # the most Python files that are looked at
PARTS_FILE = "parts.py"  # holds solved exercises for imports, written by --template parts


class Begun(NamedTuple):
    """An exercise's file; is_empty: its backward is still the template's."""

    path: Path
    is_empty: bool


def begun(folder: Path) -> dict[str, Begun]:
    """Exercise -> its file in the folder, one with a backward before an empty one; without files that do not parse."""
    found: dict[str, Begun] = {}
    for source in _sources(folder):
        if any(name.partition(".")[0] == "npformer" for name, _ in imported(source.tree)):
            continue  # no solution may import it: this is a pair of the reader's own, for npf.gradcheck
        for exercise in EXERCISES:
            if source.names.issuperset(exercise.functions):
                here = Begun(source.path, _is_empty(source, f"{exercise.name}_backward"))
                if exercise.name not in found or (found[exercise.name].is_empty and not here.is_empty):
                    found[exercise.name] = here
    return found


def _sources(folder: Path) -> Iterator[Source]:
    """The folder's Python files that may hold an exercise."""
    with suppress(OSError):
        for path in islice(sorted(folder.glob("*.py")), MOST_FILES):
            with suppress(OSError, DataError):
                if path.name != PARTS_FILE and _may_hold_one(path):
                    yield read_source(path)


def _may_hold_one(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= LARGEST and b"_backward" in path.read_bytes()


def _is_empty(source: Source, name: str) -> bool:
    """Whether the function ends by raising NotImplementedError, as the template's does."""
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    last = functions[-1].body[-1] if functions else None
    return isinstance(last, ast.Raise) and last.exc is not None and "NotImplementedError" in ast.unparse(last.exc)
