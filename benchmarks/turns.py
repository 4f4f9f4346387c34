"""Contenders in separate processes that take turns: while one works, the others wait.

Two thread pools in one process slow each other down, and two busy processes share the cores. The speed of a
machine that others use changes from minute to minute. So every contender gets its own process, all warm up, and
then they run in rounds, in an order that is reversed from round to round.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAUSE = 0.05  # before each turn: thread pools spin for some milliseconds after their last work
FEWEST_ROUNDS = 5
FEWEST_LONG_ROUNDS = 3  # if one round of all contenders takes long
LONG_ROUND = 15.0  # seconds
MOST_STEPS = 1000  # in one turn
LONG_STEP = 5.0  # seconds; one step this long is enough warm-up
SILENT = "no output; if nobody stopped it, memory ran out: measure fewer --kernels at once, since each is a process"


class ContenderError(RuntimeError):
    """A contender stopped; the message ends with its output."""


class Entry(NamedTuple):
    """How to start a contender. See ``contender`` for factory and imports."""

    name: str
    factory: str
    options: Mapping[str, Any] = {}
    imports: Sequence[str] = ()
    environment: Mapping[str, str] = {}  # on top of the environment of all
    optional: bool = False  # if it cannot start, the others continue without it


class Budget(NamedTuple):
    """How long to measure."""

    seconds: float = 20.0  # for all contenders together, without warm-up
    rounds: int | None = None  # the most rounds; None: as many as fit
    turn: float = 0.5  # seconds; target for one turn of one contender
    warm_up: int = 3  # steps


class Child:
    """One contender's process. Wait until it is ready, close it afterwards; ``contenders`` does both."""

    def __init__(self, entry, environment):
        self.name, self.optional = entry.name, entry.optional
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - lives on
        spec = {"factory": entry.factory, "options": dict(entry.options), "imports": list(entry.imports)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contender", json.dumps(spec)],
            cwd=ROOT, env={**environment, **entry.environment}, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def wait_until_ready(self):
        """Wait until it has imported and prepared everything; then about and facts are set."""
        started = self._answer()
        self.about, self.facts = started["about"], started["facts"]

    def run(self, task, steps):
        """Run a task several times; see ``contender`` for the answer."""
        return self._ask({"do": "run", "task": task, "steps": steps})

    def memory(self):
        """{"peak": bytes, "imports": bytes in use after all imports}."""
        return self._ask({"do": "memory"})

    def device(self):
        """The contender's figures of its GPU; {} on a CPU. It may make a step to measure them."""
        return self._ask({"do": "device"})

    def stop(self):
        """End the process; a caller that waits for its answer gets a ContenderError."""
        self._process.kill()

    def close(self):
        """End the process and close its pipes."""
        self.stop()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):  # the process has gone
                stream.close()

    def _ask(self, request):
        with suppress(BrokenPipeError):  # the missing answer gives the better error
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().strip().splitlines()[-12:]
            ended = f"{self.name}: expected an answer, it ended with code {code}:"
            raise ContenderError("\n    ".join([ended, *(lines or [SILENT])]))
        return json.loads(line)


@contextmanager
def contenders(entries, environment, seconds=None):
    """The contenders, all ready; they are ended on exit, or after so many seconds.

    If an optional contender does not start, the reason is printed to stderr.
    """
    children = []
    clock = threading.Timer(seconds or 0.0, lambda: [child.stop() for child in children])
    try:
        for entry in entries:
            children.append(Child(entry, environment))
        if seconds is not None:
            clock.start()
        yield [child for child in children if _starts(child)]
    finally:
        clock.cancel()
        for child in children:
            child.close()


def _starts(child):
    try:
        child.wait_until_ready()
    except ContenderError as error:
        if not child.optional:
            raise
        print(f"benchmarks: left out: {error}", file=sys.stderr)
        return False
    return True


class Measured(NamedTuple):
    """The measurements of one contender."""

    rounds: list[list[float]]  # seconds of each step of each round
    values: list[Any]  # return values of all steps, warm-up first
    others: list[tuple[float, float]]  # for each round: core-seconds that other processes used, and core-seconds in all


def take_turns(children, task, budget):
    """Measure a task of all contenders that have it: name -> Measured."""
    able = []
    steps = {}
    measured = {}
    for child in children:
        time.sleep(PAUSE)
        warm = _warm_up(child, task, budget.warm_up)
        if warm is not None:
            able.append(child)
            steps[child.name] = min(MOST_STEPS, max(1, round(budget.turn / warm[0])))
            measured[child.name] = Measured([], warm[1], [])
    start, number = time.perf_counter(), 0
    while able and not _enough(number, time.perf_counter() - start, budget):
        for child in able if number % 2 == 0 else able[::-1]:
            time.sleep(PAUSE)
            answer = child.run(task, steps[child.name])
            measured[child.name].rounds.append(answer["seconds"])
            measured[child.name].values.extend(answer["values"])
            measured[child.name].others.append(answer["others"])
        number += 1
    return measured


def _warm_up(child, task, count):
    """(seconds of the fastest step, the values of the steps), or None if child has no such task."""
    first = child.run(task, 1)
    if first["seconds"] is None:
        return None
    rest = child.run(task, count - 1) if first["seconds"][0] < LONG_STEP else {"seconds": [], "values": []}
    return min(first["seconds"] + rest["seconds"]), first["values"] + rest["values"]


def _enough(rounds, seconds, budget):
    if budget.rounds is not None and rounds >= budget.rounds:
        return True
    fewest = FEWEST_LONG_ROUNDS if seconds > LONG_ROUND * max(1, rounds) else FEWEST_ROUNDS
    return rounds >= fewest and seconds * (rounds + 1) > budget.seconds * rounds  # the next one would not fit
