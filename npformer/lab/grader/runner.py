"""Runs a learner's file in a separate process, with limits on time and memory, and collects its prints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import npformer
from npformer.check.measures import with_gaps
from npformer.io.child.values import decode, mapped
from npformer.io.child_process import GRACE, ChildEnded, ChildProcess, Limits, lent, python_child
from npformer.io.seconds import now
from npformer.lab.grader.exercises import Case, Exercise
from npformer.lab.grader.source import BANNED, Source
from npformer.lab.grader.templates import parts_source
from npformer.lab.grader.tree import paths

STARTUP = 60.0  # the most seconds for loading Python and NumPy


@dataclass
class Run:
    """A run of the learner's process: its events in order, and its prints."""

    events: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""
    printed_more: int = 0  # bytes beyond those kept
    exit_code: str = ""
    killed: bool = False  # stopped by the time limit

    @property
    def ended(self) -> bool:
        """Whether the process finished by itself."""
        return bool(self.all("end"))

    def all(self, event: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [e for e in self.events if e["event"] == event]

    def say(self, event: str, case: int | None = None, **values: Any) -> None:
        self.events.append({"event": event, "case": case, **values})


def run(
    exercise: Exercise, source: Source, beside: Sequence[Exercise], cases: Sequence[Case], limits: Limits, oracle: bool
) -> Run:
    """Run one exercise of a file on these cases; beside are all exercises of the file, whose parts it may import.

    oracle: measure the derivative of the learner's forward, instead of calling its backward.
    """
    parts = parts_source(name for other in (exercise, *beside) for name in other.available)
    job = {
        "path": str(source.path.absolute()), "parts": parts, "allowed": sorted(exercise.available),
        "banned": list(BANNED), "secret": str(Path(npformer.__file__).parent) + os.sep,
        "seconds": limits.seconds, "memory": limits.memory,
    }  # fmt: skip
    learner = _Learner(python_child(source.path.parent), job)
    try:
        learner.try_all(exercise, source, cases, limits.seconds, oracle)
    except ChildEnded as ended:
        learner.run.killed, learner.run.exit_code = ended.is_late, ended.code
    return learner.ended()


class _Over(Exception):
    """There is no more to ask."""


class _Learner:
    """Asks the learner's process, and notes its answers as events."""

    def __init__(self, process: ChildProcess, job: dict[str, Any]) -> None:
        self.run, self._process, self._job = Run(), process, job
        self._deadline, self._warned = now() + STARTUP, list[dict[str, Any]]()

    def try_all(self, exercise: Exercise, source: Source, cases: Sequence[Case], seconds: float, oracle: bool) -> None:
        """Load the file, then every case. Raises ChildEnded."""
        with suppress(_Over):
            self._ask("begin", None, "load", self._job)
            self._deadline = now() + seconds + GRACE
            asked = {"source": source.text, "module": "exercise", "pair": exercise.functions,
                     "counts": [len(exercise.arguments), 2]}  # fmt: skip
            if (loaded := self._ask("load", None, "load", asked)) is None:
                return
            self.run.say("loaded", signatures=loaded["signatures"])
            for index, case in enumerate(() if any(loaded["signatures"]) else cases):
                (self._measure if oracle else self._try)(exercise, case, index)
        if not self.run.all("refused"):
            self.run.say("end", warnings=self._warned)

    def ended(self) -> Run:
        """What happened, after the process has ended."""
        self._process.end()
        prints = self._process.prints
        self.run.printed, self.run.printed_more = (
            prints.first.decode("utf-8", "replace"),
            prints.count - len(prints.first),
        )
        return self.run

    def _try(self, exercise: Exercise, case: Case, index: int) -> None:
        """Forward, then backward twice: its calls are watched, then it is seen whether it changed its cache."""
        given = tuple(mapped(with_gaps, x) if case.gaps else x for x in (*case.arguments, case.upstream))
        dy = [("the incoming gradient", given[-1])]
        forward = self._ask(
            "forward", index, "forward", {"watch": "strictly"}, zip(exercise.arguments, given[:-1], strict=True)
        )
        if forward is None:
            return
        y, is_pair = forward["value"], forward["is_pair"]
        self.run.say("forward", index, result=(y, None) if is_pair else y, changed=forward["changed"])
        first = self._ask("backward", index, "backward", {"watch": "strictly"}, dy) if is_pair else None
        if first is None:
            return
        follow = {"watch": "", "quiet": True, "follow": index == 0}
        if second := self._ask("backward", index, "backward", follow, dy):
            told = {"result": first["value"], "changed": first["changed"], "measuring": first["signs"]}
            self.run.say("backward", index, **told, stable=_same(first, second), lines=second["lines"])

    def _measure(self, exercise: Exercise, case: Case, index: int) -> None:
        given = (("", case.arguments), ("", case.upstream))
        if found := self._ask("slopes", index, "oracle", {"leaves": _leaves(exercise, case)}, given):
            self.run.say("oracle", index, result=found["value"])

    def _ask(
        self, call: str, case: int | None, step: str, asked: dict[str, Any], values: Iterable[tuple[str, Any]] = ()
    ) -> dict[str, Any] | None:
        """The answer to a call, with its value; None after an error in the learner's code."""
        self.run.say("stage", case, step=step)
        given, arrays = lent(values)
        head = {"ask": call, "number": case, **asked, **given}
        told, found = self._process.ask(head, arrays, self._deadline - now())
        if "refused" in told:
            self.run.say("refused", message=told["refused"], line=told["line"])
            raise _Over
        self._warned = told["warnings"]
        if "failed" in told:
            self.run.say("failed", case, step=step, **told["failed"])
            if told["is_late"]:
                raise _Over
            return None
        told["lines"] = {name: (line, decode(form, found)) for name, (line, form) in told.get("lines", {}).items()}
        return {**told, "value": decode(told["form"], found) if "form" in told else None, "arrays": found}


def _same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two answers have the same value."""
    pairs = zip(first["arrays"], second["arrays"], strict=False)  # the second has those of its lines, too
    return first["form"] == second["form"] and all(
        (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()) for x, y in pairs
    )


def _leaves(exercise: Exercise, case: Case) -> list[tuple[str, list[Any], list[int]]]:
    """(name of the gradient, path in the arguments, shape) of every array to be differentiated."""
    leaves = []
    for name in exercise.wrt:
        index = exercise.arguments.index(name)
        for path, array in paths(case.arguments[index], (index,)):
            dotted = ".".join(["d" + name, *path[1:]])
            leaves.append((dotted, list(path), list(array.shape)))
    return leaves
