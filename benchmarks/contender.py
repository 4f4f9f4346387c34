"""One contender, in its own process: it works on request and waits otherwise.

Started by ``turns`` as ``python -m benchmarks.contender SPEC``; SPEC is JSON: ``factory`` ("module:name"),
``options`` (its keyword arguments), ``imports`` (modules to load first). It answers one line of JSON for
the start, then one for each request on its standard input:

    {"do": "run", "task": "step", "steps": 3}   {"seconds": [...], "values": [...], "others": [a, b]}
                                                {"seconds": null}, if it has no such task
                                                others: other processes used a of b core-seconds;
                                                steps launched together each report their mean time
    {"do": "memory"}                            {"peak": bytes, "imports": bytes}
    {"do": "device"}                            what the contender measured on its GPU: {} on a CPU
"""

import importlib
import json
import os
import sys
import time
from contextlib import suppress


def main():
    """Serve requests until standard input ends."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)  # a library's prints must not mix with the answers
        spec = json.loads(sys.argv[1])
        for name in spec["imports"]:
            importlib.import_module(name)
        module, _, name = spec["factory"].partition(":")
        factory = getattr(importlib.import_module(module), name)
        after_imports = peak_memory()
        server = Server(factory(**spec["options"]), after_imports)
        _reply(replies, {"about": server.contender.about, "facts": server.contender.facts})
        for line in sys.stdin:
            _reply(replies, server.answer(json.loads(line)))
    return 0


class Server:
    """Answers requests; the current task is kept, so that asking for it again costs nothing."""

    def __init__(self, contender, after_imports):
        self.contender = contender
        self.after_imports = after_imports
        self._name = ""
        self._task = None

    def answer(self, request):
        """The answer to one request, as in the module's docstring."""
        if request["do"] == "memory":
            return {"peak": peak_memory(), "imports": self.after_imports}
        if request["do"] == "device":
            return self.contender.on_device()
        if request["task"] != self._name:
            self._task = None  # free its arrays before the next task allocates
            self._name, self._task = request["task"], self.contender.task(request["task"])
        if self._task is None:
            return {"seconds": None}
        return self._run(self._task, request["steps"])

    def _run(self, task, steps):
        seconds = []
        values = []
        together, usage = self.contender.together, Usage(self.contender.core_seconds)
        for _ in range(-(-steps // together)):
            start = time.perf_counter()
            value = task()
            self.contender.synchronize()
            seconds += [(time.perf_counter() - start) / together] * together
            values += value if together > 1 else [value]
        return {"seconds": seconds, "values": values, "others": usage.of_others()}


class Usage:
    """Counts, from now on, the core time that this process and others use."""

    def __init__(self, more=float):
        self._more = more
        self._start = self._now()

    def of_others(self):
        """Core-seconds that other processes used, and core-seconds in all; (0, 0) where the system does not tell.

        The system counts in ticks, so the first may be a little below 0.
        """
        start, end = self._start, self._now()
        if start is None or end is None:
            return 0.0, 0.0
        busy, total, of_child = (b - a for a, b in zip(start, end, strict=True))
        return busy - of_child, total

    def _now(self):
        """Seconds so far, over all cores: busy; busy or idle; and this process's own, with those of its helpers."""
        try:
            with open("/proc/stat", encoding="ascii") as lines:
                ticks = [int(field) for field in lines.readline().split()[1:9]]
        except OSError:  # not Linux
            return None
        second = os.sysconf("SC_CLK_TCK")
        idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
        return (sum(ticks) - idle) / second, sum(ticks) / second, time.process_time() + self._more()


def memory_figure(name):
    """A memory figure of this process in bytes, from Linux's own record; 0 elsewhere."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


def peak_memory():
    """The peak resident memory of this process, in bytes.

    On Linux, getrusage inherits the parent process's peak, so this process's own record is read first.
    """
    if peak := memory_figure("VmHWM"):
        return peak
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _reply(stream, answer):
    print(json.dumps(answer), file=stream, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
