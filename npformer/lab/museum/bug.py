"""A bug of the museum: a change of the correct code, with its effect and its lesson."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: The categories, in reading order.
CATEGORIES = ("operation", "attention", "layer", "wiring", "loss", "optimiser", "training", "tests that cannot fail")

#: Where such a bug was found. Projects are not named: the museum shows the bug, not its author.
SCRATCH = "a from-scratch project in public"
SEVERAL = "several from-scratch projects in public"
FRAMEWORK = "a major framework, open for years"
OURS = "constructed, not collected: an easy mistake, added to test the checks"


@dataclass(frozen=True)
class Edit:
    """A change of one function: ``old``, a piece of code that occurs exactly once in it, becomes ``new``.

    target is "module:name" or "module:Class.method". Both are whole expressions or statements, without the
    indentation of the function. They hold for other names of the function's variables, too, see ``quote.py``.
    """

    target: str
    old: str
    new: str


def edit(target: str, old: str, new: str) -> tuple[Edit, ...]:
    """One edit, as a bug's edits; a bug with several adds them up."""
    return (Edit(target, old, new),)


@dataclass(frozen=True)
class Bug:
    """One bug. ``edits`` make it; ``test``, in the last category, names the test that it slips past."""

    id: str  # short, for the command line
    title: str
    edits: tuple[Edit, ...]
    right: str  # formulas, one line each
    wrong: str
    story: str  # why it is wrong, its effect on training, its lesson
    seen: str = SCRATCH
    sources: tuple[int, ...] = ()  # numbers of the collection of real bugs
    #: Options of the short run that shows it, beyond the usual ones; None: training cannot show it.
    run: Mapping[str, Any] | None = field(default_factory=dict)
    instead: str = ""  # what one would see elsewhere, if training cannot show it
    test: str = ""
    category: str = ""  # that of its file

    @property
    def targets(self) -> frozenset[str]:
        """The functions that it changes."""
        return frozenset(edit.target for edit in self.edits)

    @property
    def heading(self) -> str:
        """The title with a capital letter; a symbol stays as it is, since Γ is not γ."""
        first = self.title[0]
        return (first.upper() if first.isascii() else first) + self.title[1:]

    def matches(self, text: str) -> bool:
        """Whether the id, the category or the title contains text, ignoring case."""
        return any(text.lower() in part.lower() for part in (self.id, self.category, self.title))
