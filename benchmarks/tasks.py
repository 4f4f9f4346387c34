"""What a contender is made of: named tasks, and what is to be known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: One piece of work, ready to be repeated and timed. What it returns must fit into JSON.
Task = Callable[[], Any]
#: Training steps that are asked of a device before anyone waits for it, as between two lines of a log.
TOGETHER = {"numpy": 1, "cupy": 10}
PREPARED = 2  # times that a task is done on a GPU before it is ready: what is captured is captured at the second time


def nothing_to_wait_for() -> None:
    """The synchronisation of a device that is done when it returns."""


def repeated(task: Task, times: int) -> Task:
    """The task so many times, before anyone waits; its values in a list. Once: the task itself."""
    return task if times == 1 else lambda: [task() for _ in range(times)]


@dataclass(frozen=True)
class Contender:
    """What a factory returns."""

    about: dict[str, str]  # threads and the like, for the reader
    tasks: Mapping[str, Callable[[], Task]]  # name -> makes the task; its preparation is not timed
    facts: dict[str, Any] = field(default_factory=dict)  # by which it is checked that all compute the same
    synchronize: Callable[[], None] = nothing_to_wait_for  # waits until the device has done all work
    together: int = 1  # how many steps one call of a task makes before anyone waits; if several, it returns a list
    on_device: Callable[[], dict[str, Any]] = dict  # asked for when all is measured: what was seen of a GPU

    def task(self, name: str) -> Task | None:
        """The task of that name; None if there is none."""
        return self.tasks[name]() if name in self.tasks else None
