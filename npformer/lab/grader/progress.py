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
from dataclasses import asdict, astuple, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from npformer.check.report import NOT_BEGUN
from npformer.errors import DataError
from npformer.io.atomic_files import describe, write_atomically
from npformer.io.printable import shell_words, visible
from npformer.io.terminal import aligned, columns, counted
from npformer.lab.grader.exercises import EXERCISES
from npformer.lab.grader.source import LARGEST, LearnerFile, read_source

NAME = "npformer-progress.json"
FORMAT = "npformer exercises 1"
DONE, IN_PROGRESS = "done", "in progress"
MARKS = {DONE: "✓", IN_PROGRESS: "…", NOT_BEGUN: "·"}


@dataclass
class ExerciseEntry:
    """One exercise: the number of gradings, the highest level of hint shown, whether it is solved."""

    attempts: int = 0
    hint: int = 0
    solved: bool = False


@dataclass
class LearnerProgress:
    """All exercises tried, and the lessons read; problem: why the file could not be read; then nothing is written."""

    path: Path
    entries: dict[str, ExerciseEntry] = field(default_factory=dict)
    lessons: dict[str, str] = field(default_factory=dict)  # number -> IN_PROGRESS or DONE
    problem: str = ""

    def record(self, name: str, ok: bool, hint: int) -> None:
        """Record an attempt at an exercise; a solved exercise stays solved."""
        entry = self.entries.setdefault(name, ExerciseEntry())
        entry.attempts += 1
        if not entry.solved:
            entry.hint = max(entry.hint, hint)
        entry.solved |= ok

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


def load(folder: Path) -> LearnerProgress:
    """The progress in a folder; never raises."""
    path = folder / NAME
    try:
        return LearnerProgress(path, *_read(json.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return LearnerProgress(path)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        why = describe(error) if isinstance(error, OSError) else "it is not what npformer wrote"
        left = f"{NAME}: left as it is, progress is not recorded: {why}; move it away to begin anew"
        return LearnerProgress(path, problem=left)


def _read(document: Any) -> tuple[dict[str, ExerciseEntry], dict[str, str]]:
    """Exercises, those of other versions too, and lessons. Raises an error of any kind unless npformer wrote them."""
    entries = {name: ExerciseEntry(**entry) for name, entry in document["exercises"].items()}
    lessons = dict(document.get("lessons", {}))
    kinds = {tuple(map(type, astuple(entry))) for entry in entries.values()}
    if document["format"] != FORMAT or kinds - {(int, int, bool)} or {*lessons.values()} - {IN_PROGRESS, DONE}:
        raise ValueError("another format")
    return entries, lessons


def state_of(name: str, progress: LearnerProgress, files: Mapping[str, Begun]) -> str:
    """DONE; IN_PROGRESS if it was graded or the folder has a file of it; NOT_BEGUN."""
    entry = progress.entries.get(name, ExerciseEntry())
    if entry.solved:
        return DONE
    return IN_PROGRESS if entry.attempts or name in files else NOT_BEGUN


def overview(progress: LearnerProgress, files: Mapping[str, Begun]) -> str:
    """All exercises in order with their states; then the files of those in progress, and what to do next."""
    states = {exercise.name: state_of(exercise.name, progress, files) for exercise in EXERCISES}
    lines = aligned([
        (f"  {MARKS[state]} {number:>2}", exercise.name, exercise.title, "" if state == NOT_BEGUN else state)
        for number, (exercise, state) in enumerate(zip(EXERCISES, states.values(), strict=True), 1)
    ])  # fmt: skip
    going = [name for name, state in states.items() if state == IN_PROGRESS]
    lines += [""] if going else []
    for name in going:
        detail = _detail(progress.entries.get(name), files.get(name))
        lines += textwrap.wrap(f"in progress: {name}, {detail}", columns())
    left = [name for name, state in states.items() if state != DONE]
    here = [shell_words(files[name].path) for name in going if name in files]
    following = [*here, *(f"--template {name}" for name in left)][:1]
    done = f"{len(EXERCISES) - len(left)} of {len(EXERCISES)} done"
    return "\n".join([*lines, "", "; next: npformer grade ".join([done, *following])])


def _detail(entry: ExerciseEntry | None, file: Begun | None) -> str:
    """Where an exercise in progress is, and how far."""
    tried = f"graded {counted(entry.attempts, 'time')}" if entry and entry.attempts else "not graded yet"
    if file is None:
        return f"{tried}; no file of it here"
    return f"{visible(file.path)}: " + ("its backward is still empty" if file.is_empty else tried)


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
        for exercise in EXERCISES:
            if source.names.issuperset(exercise.functions):
                here = Begun(source.path, _is_empty(source, exercise.functions[1]))
                if files.setdefault(exercise.name, here).is_empty and not here.is_empty:
                    files[exercise.name] = here
    return files


def _sources(folder: Path) -> Iterator[LearnerFile]:
    """The folder's Python files that may hold an exercise: none that imports npformer, for npf.gradcheck."""
    for path in islice(sorted(folder.glob("*.py")), MOST_FILES):
        with suppress(OSError, DataError):
            is_small = path.is_file() and path.stat().st_size <= LARGEST
            if is_small and path.name != PARTS_FILE and b"_backward" in path.read_bytes():
                source = read_source(path)
                imports = (node for node in ast.walk(source.tree) if isinstance(node, ast.Import | ast.ImportFrom))
                if not any("npformer" in ast.unparse(node) for node in imports):
                    yield source


def _is_empty(source: LearnerFile, name: str) -> bool:
    """Whether the function ends by raising NotImplementedError, as the template's does."""
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    last = functions[-1].body[-1] if functions else None
    return isinstance(last, ast.Raise) and "NotImplementedError" in ast.unparse(last)
