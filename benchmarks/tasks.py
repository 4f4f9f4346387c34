"""What a contender is made of: named tasks, and what is to be known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: One piece of work, ready to be repeated and timed. What it returns must fit into JSON.
Task = Callable[[], Any]


def nothing_to_wait_for() -> None:
    """The synchronisation of a device that is done when it returns."""


@dataclass(frozen=True)
class Contender:
    """What a factory returns."""

    about: dict[str, str]  # threads and the like, for the reader
    tasks: Mapping[str, Callable[[], Task]]  # name -> makes the task; its preparation is not timed
    facts: dict[str, Any] = field(default_factory=dict)  # by which it is checked that all compute the same
    synchronize: Callable[[], None] = nothing_to_wait_for  # waits until the device has done all work

    def task(self, name: str) -> Task | None:
        """The task of that name; None if there is none."""
        return self.tasks[name]() if name in self.tasks else None
