"""A learner's progress: one small JSON file, ``npformer-progress.json``, in the current folder.

It is in the current folder because the solutions are there: it is visible, can be handed in or deleted,
and two courses in two folders do not mix. A file that npformer did not write is not changed.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from npformer.errors import DataError
from npformer.io.atomic_files import describe, write_atomically
from npformer.io.printable import shell_words, visible
from npformer.io.terminal import aligned, columns
from npformer.lab.grader.exercises import EXERCISES
from npformer.lab.grader.source import LARGEST, Source, imported, read_source

NAME = "npformer-progress.json"
FORMAT = "npformer exercises 1"
DONE, IN_PROGRESS, NOT_BEGUN = "done", "in progress", "not begun"
MARKS = {DONE: "✓", IN_PROGRESS: "…", NOT_BEGUN: "·"}


@dataclass
class Entry:
    """One exercise: the number of gradings, the highest level of hint shown, whether it is solved."""

    attempts: int = 0
    hint: int = 0
    solved: bool = False


@dataclass
class Progress:
    """All exercises tried, and the lessons read; problem: why the file could not be read; then nothing is written."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    lessons: dict[str, str] = field(default_factory=dict)  # number -> IN_PROGRESS or DONE
    problem: str = ""

    def record(self, name: str, ok: bool, hint: int) -> None:
        """Record an attempt at an exercise; a solved exercise stays solved."""
        entry = self.entries.setdefault(name, Entry())
        entry.attempts += 1
        if not entry.solved:
            entry.hint = max(entry.hint, hint)
        entry.solved = entry.solved or ok

    def save(self) -> str:
        """Write the file; returns "" or the reason of the failure."""
        if self.problem:
            return self.problem
        exercises = {name: asdict(entry) for name, entry in self.entries.items()}
        document = {"format": FORMAT, "exercises": exercises} | ({"lessons": self.lessons} if self.lessons else {})
        try:
            write_atomically(self.path, (json.dumps(document, indent=1) + "\n").encode())
        except OSError as error:
            return f"{self.path.name}: progress is not recorded: {describe(error)}"
        return ""


def load(folder: Path) -> Progress:
    """The progress in a folder; never raises."""
    path = folder / NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Progress(path, _entries(document), _lessons(document))
    except FileNotFoundError:
        return Progress(path)
    except (OSError, ValueError, RecursionError) as error:
        why = describe(error) if isinstance(error, OSError) else "it is not what npformer wrote"
        return Progress(
            path, problem=f"{NAME}: left as it is, progress is not recorded: {why}; move it away to begin anew"
        )


def _entries(document: Any) -> dict[str, Entry]:
    """Raises ValueError unless npformer wrote document; exercises of other versions are kept."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("another format")
    exercises = document.get("exercises")
    if not isinstance(exercises, dict):
        raise ValueError("no exercises")
    return {str(name): _entry(entry) for name, entry in exercises.items()}


def _lessons(document: Any) -> dict[str, str]:
    """Raises ValueError unless npformer wrote them."""
    lessons = document.get("lessons", {})
    if not isinstance(lessons, dict) or not all(state in (IN_PROGRESS, DONE) for state in lessons.values()):
        raise ValueError("no lessons")
    return lessons


def _entry(entry: Any) -> Entry:
    if not isinstance(entry, dict):
        raise ValueError("no entry")
    attempts, hint, solved = (entry.get(name) for name in ("attempts", "hint", "solved"))
    if type(attempts) is not int or type(hint) is not int or type(solved) is not bool:
        raise ValueError("no entry")
    return Entry(attempts, hint, solved)


def state_of(name: str, progress: Progress, files: Mapping[str, Begun]) -> str:
    """DONE; IN_PROGRESS if it was graded or the folder has a file of it; NOT_BEGUN."""
    entry = progress.entries.get(name, Entry())
    if entry.solved:
        return DONE
    return IN_PROGRESS if entry.attempts or name in files else NOT_BEGUN


def overview(progress: Progress, files: Mapping[str, Begun]) -> str:
    """All exercises in order with their states; then the files of those in progress, and what to do next."""
    states = {exercise.name: state_of(exercise.name, progress, files) for exercise in EXERCISES}
    rows = [
        (f"  {MARKS[state]} {number:>2}", exercise.name, exercise.title, "" if state == NOT_BEGUN else state)
        for number, (exercise, state) in enumerate(zip(EXERCISES, states.values(), strict=True), 1)
    ]
    lines = aligned(rows)
    going = [name for name, state in states.items() if state == IN_PROGRESS]
    for name in going:
        text = f"in progress: {name}, {_detail(progress.entries.get(name, Entry()), files.get(name))}"
        lines += ["", *textwrap.wrap(text, columns())] if name == going[0] else textwrap.wrap(text, columns())
    count = sum(state == DONE for state in states.values())
    return "\n".join([*lines, "", f"{count} of {len(EXERCISES)} done{_next(states, files)}"])


def _detail(entry: Entry, file: Begun | None) -> str:
    """Where an exercise in progress is, and how far."""
    tried = f"graded {entry.attempts} time{'s' if entry.attempts != 1 else ''}" if entry.attempts else "not graded yet"
    if file is None:
        return f"{tried}; no file of it here"
    return f"{visible(file.path)}: " + ("its backward is still empty" if file.is_empty else tried)


def _next(states: Mapping[str, str], files: Mapping[str, Begun]) -> str:
    """What to do next: what is in progress and has a file, else the first that is not done."""
    going = [name for name, state in states.items() if state == IN_PROGRESS and name in files]
    left = [name for name, state in states.items() if state != DONE]
    if going:
        return f"; next: npformer grade {shell_words(files[going[0]].path)}"
    return f"; next: npformer grade --template {left[0]}" if left else ""


MOST_FILES = 500  # the most Python files that are looked at
PARTS_FILE = "parts.py"  # holds solved exercises for imports, written by --template parts


class Begun(NamedTuple):
    """An exercise's file; is_empty: its backward is still the template's."""

    path: Path
    is_empty: bool


def begun(folder: Path) -> dict[str, Begun]:
    """Exercise -> its file in the folder, one with a backward before an empty one; without files that do not parse."""
    files: dict[str, Begun] = {}
    for source in _sources(folder):
        if any(name.partition(".")[0] == "npformer" for name, _ in imported(source.tree)):
            continue  # no solution may import it: this is a pair of the reader's own, for npf.gradcheck
        for exercise in EXERCISES:
            if source.names.issuperset(exercise.functions):
                here = Begun(source.path, _is_empty(source, f"{exercise.name}_backward"))
                if exercise.name not in files or (files[exercise.name].is_empty and not here.is_empty):
                    files[exercise.name] = here
    return files


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
