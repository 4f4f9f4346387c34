"""Runs a learner's file in a separate process, with limits on time and memory, and collects its prints."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import npformer
from npformer.io.child_process import GRACE, Limits, kill, started
from npformer.lab.grader.exercises import Case, Exercise
from npformer.lab.grader.source import BANNED, Source
from npformer.lab.grader.templates import parts_source
from npformer.lab.grader.tree import encode, paths

CHILD = Path(__file__).parent / "child"
PRINTED = 4000  # the most characters of prints that are kept
REPORTED = 64_000_000  # the most characters of results that are read
STARTUP = 60.0  # the most seconds for loading Python and NumPy


@dataclass
class Run:
    """A run of the learner's process: its events in order, and its prints."""

    events: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""
    printed_more: int = 0  # characters beyond those kept
    exit_code: int = 0
    killed: bool = False  # stopped by the time limit
    started: threading.Event = field(default_factory=threading.Event)  # its first event arrived, or it ended

    @property
    def ended(self) -> bool:
        """Whether the process finished by itself."""
        return any(event["event"] == "end" for event in self.events)

    def all(self, event: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [e for e in self.events if e["event"] == event]


def run(
    exercise: Exercise, source: Source, beside: Sequence[Exercise], cases: Sequence[Case], limits: Limits, oracle: bool
) -> Run:
    """Run one exercise of a file on these cases; beside are all exercises of the file, whose parts it may import.

    oracle: measure the derivative of the learner's forward, instead of calling its backward.
    """
    parts = parts_source(name for other in (exercise, *beside) for name in other.available)
    job = {
        "path": str(source.path.absolute()), "source": source.text, "arguments": list(exercise.arguments),
        "pair": exercise.functions,
        "parts": parts, "allowed": sorted(exercise.available), "banned": list(BANNED),
        "secret": str(Path(npformer.__file__).parent) + os.sep,
        "seconds": limits.seconds, "memory": limits.memory, "oracle": oracle,
        "cases": [
            {"arguments": [encode(x) for x in case.arguments], "upstream": encode(case.upstream), "gaps": case.gaps}
            for case in cases
        ],
        "leaves": [_leaves(exercise, case) for case in cases],
    }  # fmt: skip
    process = started(CHILD, source.path.parent)
    try:
        return _watched(process, json.dumps(job).encode(), limits)
    finally:
        kill(process)


def _leaves(exercise: Exercise, case: Case) -> list[tuple[str, list[Any], list[int]]]:
    """(name of the gradient, path in the arguments, shape) of every array to be differentiated."""
    leaves = []
    for name in exercise.wrt:
        index = exercise.arguments.index(name)
        for path, array in paths(case.arguments[index], (index,)):
            dotted = ".".join(["d" + name, *path[1:]])
            leaves.append((dotted, list(path), list(array.shape)))
    return leaves


def _watched(process: subprocess.Popen[bytes], job: bytes, limits: Limits) -> Run:
    result = Run()
    threads = [
        threading.Thread(target=_feed, args=(process.stdin, job), daemon=True),
        threading.Thread(target=_read_events, args=(process.stdout, result), daemon=True),
        threading.Thread(target=_read_prints, args=(process.stderr, result), daemon=True),
    ]
    for thread in threads:
        thread.start()
    result.started.wait(STARTUP)
    try:
        result.exit_code = process.wait(limits.seconds + GRACE)
    except subprocess.TimeoutExpired:
        result.killed = True
        kill(process)
        result.exit_code = process.wait()
    for thread in threads:
        thread.join(2.0)
    return result


def _feed(stream: Any, job: bytes) -> None:
    with contextlib.suppress(OSError), stream:  # it may have ended before reading
        stream.write(job)


def _read_events(stream: Any, result: Run) -> None:
    left = REPORTED
    with stream, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(result.started.set)
        for line in stream:
            result.started.set()
            left -= len(line)
            if left < 0:
                continue
            with contextlib.suppress(ValueError):  # half a line from a killed process
                result.events.append(json.loads(line))


def _read_prints(stream: Any, result: Run) -> None:
    kept = b""
    with stream:
        while chunk := stream.read1(65536):
            room = max(PRINTED - len(kept), 0)
            kept += chunk[:room]
            result.printed_more += len(chunk) - len(chunk[:room])
            result.printed = kept.decode("utf-8", "replace")
