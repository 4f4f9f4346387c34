"""A bug of the museum: a change of the correct code, with what it does and what it teaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: The categories, in the order in which one walks through them.
CATEGORIES = ("operation", "attention", "layer", "wiring", "loss", "optimiser", "training", "tests that cannot fail")

#: Where such a bug was met. Projects are not named: the museum shows the bug, not its author.
SCRATCH = "a from-scratch project in public"
SEVERAL = "several from-scratch projects in public"
FRAMEWORK = "a major framework, open for years"
OURS = "not collected but constructed: an easy mistake, added to try the checks"


@dataclass(frozen=True)
class Edit:
    """A change of one function: ``old``, which stands exactly once in its source, becomes ``new``.

    target is "module:name" or "module:Class.method". Both texts are written without the indentation of
    the function itself; a line break in them is followed by the indentation that the line has in there.
    """

    target: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """One bug. ``edits`` make it; ``test``, in the last category, names the test that it slips past."""

    id: str  # short, for the command line
    category: str
    title: str
    edits: tuple[Edit, ...]
    right: str  # formulas, one line each
    wrong: str
    story: str  # why it is wrong, what one sees while training, what to learn
    seen: str = SCRATCH
    sources: tuple[int, ...] = ()  # numbers of the collection of real bugs
    #: Options of the short run in which it is shown, beyond the usual ones; None: training cannot show it.
    run: Mapping[str, Any] | None = field(default_factory=dict)
    instead: str = ""  # what one would see instead, if training cannot show it
    test: str = ""

    @property
    def targets(self) -> frozenset[str]:
        """The functions that it changes."""
        return frozenset(edit.target for edit in self.edits)

    def matches(self, text: str) -> bool:
        """Whether text stands in the id, the category or the title, in any case."""
        return any(text.lower() in part.lower() for part in (self.id, self.category, self.title))
