"""A contender of several processes, which make their steps together: ranks, whoever starts and connects them.

``together(count, start, rank, options)`` is used in a contender's process. Each rank is a process of

    python -m benchmarks.group ADDRESS MODULE:NAME OPTIONS

where NAME(**options) returns (rank, facts, step, told): step() makes a step and returns its loss, told() what it has
measured about its exchanges. It waits for requests at the address, and ends when nobody is there any more.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Client, Listener

from benchmarks.tasks import Contender

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
CORES = "BENCHMARK_CORES"  # the cores of the contender, of which each rank takes one


def together(count, start, rank, options, about):
    """A contender whose step is one of all its ranks. start: words that start all, if any do."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    environment = os.environ | ONE_THREAD | {CORES: cores}
    with tempfile.TemporaryDirectory(prefix="group-") as folder, Listener(f"{folder}/hub", backlog=count) as hub:
        words = [sys.executable, "-m", "benchmarks.group", hub.address, rank, json.dumps(options)]
        started = [
            subprocess.Popen(
                [*start, *words],
                env=environment | ({} if start else {"RANK": str(number), "WORLD_SIZE": str(count)}),
                stdin=subprocess.DEVNULL,
            )
            for number in range(1 if start else count)
        ]
        found = sorted(((channel.recv(), channel) for channel in (hub.accept() for _ in range(count))), key=by_rank)
    channels, seconds = [channel for _, channel in found], [0.0] * count
    facts = {"loss": sum(said["loss"] for said, _ in found) / count}

    def ask(what):
        for channel in channels:
            channel.send(what)
        return [channel.recv() for channel in channels]

    def step():
        answers = ask("step")
        seconds[:] = [used for _, used in answers]
        return sum(loss for loss, _ in answers) / count

    def last():
        told = ask("told")
        for channel in channels:
            channel.close()
        for process in started:
            process.wait()
        return {"exchanges": told}

    return Contender(about, {"step": lambda: step}, facts, on_device=last, core_seconds=lambda: sum(seconds))


def by_rank(found):
    """The key by which ranks are in order."""
    return found[0]["rank"]


def main():
    """One rank, until nobody asks any more."""
    address, factory, options = sys.argv[1:]
    module, _, name = factory.partition(":")
    hub = Client(address)
    rank, facts, step, told = getattr(importlib.import_module(module), name)(**json.loads(options))
    hub.send({"rank": rank, **facts})
    answers = {"step": lambda: (step(), time.process_time()), "told": told}
    try:
        while True:
            hub.send(answers[hub.recv()]())
    except (EOFError, OSError):  # the contender has gone
        os._exit(0)  # without an end of MPI, for which ranks would wait


def take_core(rank):
    """Let this process use one of the contender's cores, as ``--processes`` does."""
    cores = [int(core) for core in os.environ[CORES].split(",")]
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


if __name__ == "__main__":
    raise SystemExit(main())
