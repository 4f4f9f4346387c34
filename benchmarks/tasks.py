"""The parts of a contender: named tasks, and facts about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: One piece of work, ready to be repeated and timed. Its return value must fit into JSON.
Task = Callable[[], Any]
#: Training steps queued on a device before the host waits for it, as between two lines of a log.
TOGETHER = {"numpy": 1, "cupy": 10}
PREPARED = 2  # runs of a task on a GPU before it counts as ready: graphs are captured in the second run


def nothing_to_wait_for():
    """The synchronisation of a device whose calls return when their work is done."""


def repeated(task, times):
    """A task that runs the given one so many times before the host waits, and returns a list; once: the task itself."""
    return task if times == 1 else lambda: [task() for _ in range(times)]


@dataclass(frozen=True)
class Contender:
    """A contender, as a factory returns it."""

    about: dict[str, str]  # threads and similar facts, for the reader
    tasks: Mapping[str, Callable[[], Task]]  # name -> makes the task; its preparation is not timed
    facts: dict[str, Any] = field(default_factory=dict)  # compared to check that all contenders compute the same
    synchronize: Callable[[], None] = nothing_to_wait_for  # waits until the device has done all work
    together: int = 1  # steps in one call of a task before the host waits; if several, it returns a list
    on_device: Callable[[], dict[str, Any]] = dict  # called after all measurements: figures of a GPU, or of ranks
    core_seconds: Callable[[], float] = float  # what its other processes have used so far

    def task(self, name):
        """The task of that name, or None."""
        return self.tasks[name]() if name in self.tasks else None
