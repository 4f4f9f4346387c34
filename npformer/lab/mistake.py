"""A mistake: a change of right code, what it does, and what is to be said of it; a list of them is a TOML file.

The museum's are of npformer's own functions; those that score the checks are in benchmarks/corpus, beside their pairs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class EditError(ValueError):
    """The code that an edit changes does not occur exactly once."""


def replaced(source: str, old: str, new: str) -> str:
    """The source with new in the place of old. Raises EditError unless old occurs exactly once."""
    if source.count(old) != 1:
        raise EditError(f"expected this code exactly once, found it {source.count(old)} times:\n{old}")
    return source.replace(old, new)


@dataclass(frozen=True)
class Edit:
    """A change of one function: ``old``, a piece of code that occurs exactly once in it, becomes ``new``.

    where is "module:name" or "module:Class.method"; beside a pair, "f", "f.inner" or "Class.method" of its text, and
    "" the whole text. old and new are pieces of its text as it stands there, as if the function began at the left.
    """

    where: str
    old: str
    new: str


@dataclass(frozen=True)
class Mistake:
    """One mistake. ``edits`` make it; ``test``, where there is one, names the test that it slips past."""

    edits: tuple[Edit, ...]
    id: str = ""  # short, for the command line
    title: str = ""  # what it is; beside a pair, with its mend
    right: str = ""  # formulas, one line each
    wrong: str = ""
    story: str = ""  # why it is wrong, its effect on training, its lesson
    seen: str = ""  # where it was found
    #: Options of the short run that shows it, beyond the usual ones; None: training cannot show it.
    run: Mapping[str, Any] | None = None
    instead: str = ""  # what one would see elsewhere, if training cannot show it
    test: str = ""
    category: str = ""
    kinds: tuple[str, ...] = ()  # what a person would name as the cause
    regime: str = ""  # where it shows
    size: float = 0.0  # as a relative error, of one that its precision hides

    @property
    def targets(self) -> frozenset[str]:
        """The functions that it changes."""
        return frozenset(edit.where for edit in self.edits)

    @property
    def heading(self) -> str:
        """The title with a capital letter; a symbol stays as it is, since Γ is not γ."""
        first = self.title[0]
        return (first.upper() if first.isascii() else first) + self.title[1:]

    def matches(self, text: str) -> bool:
        """Whether the id, the category or the title contains text, ignoring case."""
        return any(text.lower() in part.lower() for part in (self.id, self.category, self.title))


def mistakes(path: Path) -> tuple[Mistake, ...]:
    """The mistakes of a file, in its order; each table has the name of its category."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(_mistake(category, **row) for category, rows in tables.items() for row in rows)


def _mistake(category: str, edits: Sequence[Mapping[str, str]], **said: Any) -> Mistake:
    return Mistake(category=category, edits=tuple(Edit(**edit) for edit in edits), **said)
