"""Contenders in processes of their own take turns, and each round is compared with the rounds that it alternated with.

Two thread pools in one process slow each other down, two busy processes share the cores, and the speed of a machine
that others use changes from minute to minute. So every contender has its own process, or several that make their steps
together; all warm up, and then they run in rounds, in an order that is reversed from round to round. A process is

    python -m benchmarks.harness ADDRESS MODULE:NAME OPTIONS IMPORTS

It connects to the address, says what its ``Contender`` is, and works on request until nobody is there any more.
"""

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PEER = "torch"  # the prefix of peers' names
PAUSE = 0.05  # before each turn: thread pools spin for some milliseconds after their last work
FEWEST, FEWEST_LONG, LONG = 5, 3, 15.0  # rounds; rounds of more than so many seconds
MOST_STEPS = 1000  # in one turn
#: Training steps queued on a device before the host waits for it, as between two lines of a log.
TOGETHER = {"numpy": 1, "cupy": 10}
PREPARED = 2  # runs of a task on a GPU before it counts as ready: graphs are captured in the second run


class ContenderError(RuntimeError):
    """A contender stopped; the message ends with its output."""


class Entry(NamedTuple):
    """How to start a contender: what makes it, "module:name", and its arguments."""

    name: str
    factory: str
    options: Mapping[str, Any] = {}
    imports: Sequence[str] = ()  # modules to load first: the memory that they take is told apart
    environment: Mapping[str, str] = {}  # on top of the environment of all
    optional: bool = False  # if it cannot start, the others continue without it
    processes: int = 1  # that make its steps together
    start: Sequence[str] = ()  # words that start them all


class Budget(NamedTuple):
    """How long to measure."""

    seconds: float = 20.0  # for all contenders together, without warm-up
    rounds: int | None = None  # the most rounds; None: as many as fit
    turn: float = 0.5  # seconds; target for one turn of one contender
    warm_up: int = 3  # steps


@dataclass(frozen=True)
class Contender:
    """A contender, as a factory returns it. A task is a function of nothing, which is repeated and timed."""

    about: dict[str, str]  # threads and similar facts, for the reader
    tasks: Mapping[str, Callable[[], Callable[[], Any]]]  # name -> makes the task; its preparation is not timed
    facts: dict[str, Any] = field(default_factory=dict)  # compared to check that all contenders compute the same
    synchronize: Callable[[], None] = lambda: None  # waits until the device has done all work
    together: int = 1  # steps in one call of a task before the host waits; if several, it returns a list
    on_device: Callable[[], dict[str, Any]] = dict  # called after all measurements: figures of a GPU, or of a rank


def repeated(task, times):
    """A task that runs the given one so many times before the host waits, and returns a list; once: the task itself."""
    return task if times == 1 else lambda: [task() for _ in range(times)]


class Child:
    """One contender's processes. Wait until they are ready, close them afterwards; ``contenders`` does both."""

    def __init__(self, entry, environment, address):
        self.name, self.optional = entry.name, entry.optional
        self._count, self._channels = entry.processes, []
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - lives on
        self._hub = Listener(address, backlog=entry.processes)
        words = [address, entry.factory, json.dumps(dict(entry.options)), ",".join(entry.imports)]
        command = [*entry.start, sys.executable, "-m", "benchmarks.harness", *words]
        self._processes = [
            subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self._errors, stderr=self._errors,
                env={**environment, **entry.environment, "RANK": str(rank), "WORLD_SIZE": str(entry.processes)},
            )
            for rank in range(1 if entry.start else entry.processes)
        ]  # fmt: skip
        for process in self._processes:
            threading.Thread(target=tell_the_end, args=(process, address), daemon=True).start()

    def wait_until_ready(self):
        """Wait until it has imported and prepared everything; then about and facts are set."""
        said = []
        while len(said) < self._count:
            channel = self._hub.accept()
            self._channels.append(channel)
            said.append(self._heard(channel))
        self._hub.close()
        order = sorted(range(self._count), key=lambda i: said[i][1].get("rank", 0))
        self._channels = [self._channels[i] for i in order]
        self.about, self.facts = said[order[0]]
        if "loss" in self.facts:  # of the rows that each process has
            self.facts["loss"] = statistics.fmean(facts["loss"] for _, facts in said)

    def run(self, task, steps):
        """(seconds of each step, its values, core-seconds used by others and in all); None without such a task."""
        answers = self._ask("run", task, steps)
        if answers[0] is None:
            return None
        seconds, values, used = zip(*answers, strict=True)
        (busy, total, _), own = used[0], sum(each[2] for each in used)
        middle = values[0] if len(values) == 1 else list(map(statistics.fmean, zip(*values, strict=True)))
        return list(map(max, zip(*seconds, strict=True))), middle, (busy - own, total)

    def memory(self):
        """(peak, in use after all imports), in bytes."""
        return tuple(map(sum, zip(*self._ask("memory"), strict=True)))

    def device(self):
        """The contender's figures of its GPU, or of its first rank; {} without any. It may make a step for them."""
        return self._ask("device")[0]

    def stop(self):
        """End the processes; a caller that waits for an answer gets a ContenderError."""
        for process in self._processes:
            process.kill()

    def close(self):
        """End the processes and close what connects them."""
        for channel in self._channels:
            channel.close()  # several of MPI end by themselves
        if self._count == 1:
            self.stop()
        for process in self._processes:
            process.wait()
        self._hub.close()
        self._errors.close()

    def _ask(self, *request):
        for channel in self._channels:
            with suppress(OSError):  # the missing answer gives the better error
                channel.send(request)
        return [self._heard(channel) for channel in self._channels]

    def _heard(self, channel):
        with suppress(EOFError, OSError):
            if (answer := channel.recv()) != "ended":
                return answer
        with suppress(subprocess.TimeoutExpired):
            self._processes[0].wait(10)  # for its last words
        self.stop()
        code = self._processes[0].wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()[-12:] or ["no output; if nobody stopped it, memory ran out"]
        raise ContenderError("\n    ".join([f"{self.name}: expected an answer, it ended with code {code}:", *lines]))


def tell_the_end(process, address):
    """Wait until a process ends, and say so to whoever still waits for its first word."""
    process.wait()
    with suppress(OSError), Client(address) as channel:
        channel.send("ended")


@contextmanager
def contenders(entries, environment, seconds=None):
    """The contenders, all ready; they are ended on exit, or after so many seconds.

    If an optional contender does not start, the reason is printed to stderr.
    """
    children = []
    clock = threading.Timer(seconds or 0.0, lambda: [child.stop() for child in children])
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        stack.callback(clock.cancel)
        for number, entry in enumerate(entries):
            children.append(Child(entry, environment, f"{folder}/{number}"))
            stack.callback(children[-1].close)
        if seconds is not None:
            clock.start()
        yield [child for child in children if _starts(child)]


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
    able, measured = {}, {}
    for child in children:
        time.sleep(PAUSE)
        if first := child.run(task, 1):
            more = child.run(task, budget.warm_up - 1) if first[0][0] < 5.0 else ([], [], None)  # else it is warm
            able[child] = min(MOST_STEPS, max(1, round(budget.turn / min(first[0] + more[0]))))
            measured[child.name] = Measured([], first[1] + more[1], [])
    start, number = time.perf_counter(), 0
    while able and not _enough(number, time.perf_counter() - start, budget):
        for child in list(able)[:: 1 if number % 2 == 0 else -1]:
            time.sleep(PAUSE)
            seconds, values, others = child.run(task, able[child])
            measured[child.name].rounds.append(seconds)
            measured[child.name].values.extend(values)
            measured[child.name].others.append(others)
        number += 1
    return measured


def _enough(rounds, seconds, budget):
    if budget.rounds is not None and rounds >= budget.rounds:
        return True
    fewest = FEWEST_LONG if seconds > LONG * max(1, rounds) else FEWEST
    return rounds >= fewest and seconds * (rounds + 1) > budget.seconds * rounds  # the next one would not fit


def ratio(ours, theirs):
    """Their time over ours, round by round: 2 means that ours is twice as fast. The median, and the quartiles."""
    each = [statistics.median(b) / statistics.median(a) for a, b in zip(ours, theirs, strict=True)]
    return dict(zip(("median", "low", "high"), np.quantile(each, (0.5, 0.25, 0.75)).tolist(), strict=True))


def median(rounds):
    """The median time of all steps."""
    return statistics.median(seconds for one in rounds for seconds in one)


def best_peer(measured):
    """The peer with the lowest median time; None if there is no peer."""
    peers = [name for name in measured if name.startswith(PEER)]
    return min(peers, key=lambda name: median(measured[name].rounds), default=None)


def rows(children, measured):
    """A JSON row for each contender that has the task, in the order of children; times in seconds."""
    peer, lines = best_peer(measured), []
    for child in children:
        if child.name in measured:
            rounds, others = measured[child.name].rounds, measured[child.name].others
            peak, imports = child.memory()
            used, total = map(sum, zip(*others, strict=True))
            lines.append(
                {"name": child.name, **child.about, "median": median(rounds), "best": min(map(min, rounds)),
                 "rounds": len(rounds), "steps": sum(map(len, rounds)),
                 "times_as_fast": ratio(rounds, measured[peer].rounds) if peer else None,
                 "round_medians": [statistics.median(one) for one in rounds],
                 "others_share": used / total if total else None,
                 "peak_bytes": peak - imports, "imports_bytes": imports, **child.device()}
            )  # fmt: skip
    return lines


def core_seconds():
    """Seconds so far, over all cores: busy; busy or idle; and this process's own. Zeros where the system is silent."""
    own = time.process_time()
    try:
        with open("/proc/stat", encoding="ascii") as lines:
            ticks = [int(each) / os.sysconf("SC_CLK_TCK") for each in lines.readline().split()[1:9]]
    except OSError:  # not Linux
        return 0.0, 0.0, 0.0
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks), own  # without idle, and waiting for a disk


def memory_figure(name):
    """A memory figure of this process in bytes, from Linux's own record; 0 elsewhere."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


class Server:
    """Answers requests; the current task is kept, so that asking for it again costs nothing."""

    def __init__(self, contender, after_imports):
        self._contender, self._imports, self._name, self._task = contender, after_imports, "", None

    def answer(self, what, *words):
        """The answer to ("run", task, steps), ("memory",) or ("device",)."""
        known = {"run": self._run, "device": self._contender.on_device}
        return known[what](*words) if what in known else (memory_figure("VmHWM"), self._imports)

    def _run(self, name, steps):
        if name != self._name:
            self._task = None  # free its arrays before the next task allocates
            make = self._contender.tasks.get(name)
            self._name, self._task = name, make and make()
        return self._task and self._timed(steps)

    def _timed(self, steps):
        seconds, values, together, before = [], [], self._contender.together, core_seconds()
        for _ in range(-(-steps // together)):
            start = time.perf_counter()
            value = self._task()
            self._contender.synchronize()
            seconds += [(time.perf_counter() - start) / together] * together
            values += value if together > 1 else [value]
        return seconds, values, [after - b for after, b in zip(core_seconds(), before, strict=True)]


def main():
    """Serve requests until nobody is there any more."""
    address, factory, options, imports = sys.argv[1:]
    for module in filter(None, imports.split(",")):
        importlib.import_module(module)
    module, _, name = factory.partition(":")
    make = getattr(importlib.import_module(module), name)
    after_imports = memory_figure("VmHWM")
    contender = make(**json.loads(options))
    server = Server(contender, after_imports)
    with suppress(EOFError, OSError), Client(address) as channel:
        channel.send((contender.about, contender.facts))
        while True:
            channel.send(server.answer(*channel.recv()))
    sys.stdout.flush()
    os._exit(0)  # without an end of MPI, for which ranks would wait


if __name__ == "__main__":
    main()
