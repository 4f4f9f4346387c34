"""A learner's progress: one small JSON file, ``npformer-progress.json``, in the current folder.

It is in the current folder because the solutions are there: it is visible, can be handed in or deleted,
and two courses in two folders do not mix. A file that npformer did not write is not changed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from npformer.atomic import describe, write_atomically
from npformer.lab.grader.exercises import BY_NAME, EXERCISES

NAME = "npformer-progress.json"
FORMAT = "npformer exercises 1"


@dataclass
class Entry:
    """One exercise: the number of gradings, the highest level of hint shown, whether it is solved."""

    attempts: int = 0
    hint: int = 0
    solved: bool = False


@dataclass
class Progress:
    """All exercises tried; problem: why the file could not be read, in which case nothing is written either."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
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
        document = {"format": FORMAT, "exercises": {name: asdict(entry) for name, entry in self.entries.items()}}
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
        return Progress(path, _entries(document))
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


def _entry(entry: Any) -> Entry:
    if not isinstance(entry, dict):
        raise ValueError("no entry")
    attempts, hint, solved = (entry.get(name) for name in ("attempts", "hint", "solved"))
    if type(attempts) is not int or type(hint) is not int or type(solved) is not bool:
        raise ValueError("no entry")
    return Entry(attempts, hint, solved)


def overview(progress: Progress) -> str:
    """All exercises in order, with the learner's progress."""
    lines = []
    for number, exercise in enumerate(EXERCISES, 1):
        entry = progress.entries.get(exercise.name, Entry())
        mark = "✓" if entry.solved else "…" if entry.attempts else "·"
        tries = f"{entry.attempts} attempt{'s' if entry.attempts != 1 else ''}" if entry.attempts else ""
        lines.append(f"  {mark} {number:>2}  {exercise.name:<22} {exercise.title:<32} {tries}".rstrip())
    return "\n".join([*lines, "", _summary(progress)])


def _summary(progress: Progress) -> str:
    solved = {name for name, entry in progress.entries.items() if entry.solved and name in BY_NAME}
    left = [exercise.name for exercise in EXERCISES if exercise.name not in solved]
    if not left:
        return f"all {len(EXERCISES)} solved"
    return f"{len(solved)} of {len(EXERCISES)} solved; next: npformer grade --template {left[0]}"
