"""Loads a learner's file, calls its pair on every case, and reports the events."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[3] / "io" / "child"))

from fence import REFUSE, fence  # type: ignore[import-not-found]
from limits import OWN, TimeLimit, library, limit  # type: ignore[import-not-found]
from lines import Lines  # type: ignore[import-not-found]
from measuring import Measuring  # type: ignore[import-not-found]
from slopes import slopes  # type: ignore[import-not-found]
from values import decode, encode  # type: ignore[import-not-found]

Job = dict[str, Any]
Pair = list[Callable[..., Any]]  # the learner's forward and backward
LIBRARY = library()


class Reporter:
    """Writes events, one line of JSON each, with the stage at which they occurred."""

    def __init__(self, stream: Any, path: str) -> None:
        self.stream, self.path = stream, path
        self.stage: dict[str, Any] = {"step": "load", "case": None}

    def say(self, event: str, **values: Any) -> None:
        self.stream.write(json.dumps({"event": event, **self.stage, **values}) + "\n")
        self.stream.flush()

    def enter(self, step: str, case: int | None) -> None:
        self.stage = {"step": step, "case": case}
        self.say("stage")

    def failed(self, error: BaseException) -> None:
        """An error, with the last line of the learner's file that it passed through."""
        passed = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in passed if frame.f_code.co_filename == self.path]
        self.say("failed", type=type(error).__name__, message=str(error)[:2000], line=lines[-1] if lines else None)


def collect_warnings(path: str) -> list[dict[str, Any]]:
    """A list that collects the first few warnings from now on, with their lines in the file path."""
    noted: list[dict[str, Any]] = []

    def note(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        told = {"message": str(message)[:200], "line": lineno if filename == path else None}
        if told not in noted and len(noted) < 5:
            noted.append(told)

    warnings.simplefilter("always")
    warnings.showwarning = note
    return noted


def main() -> None:
    """Read the job and run it."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # from here on every print goes to standard error
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    job = json.load(sys.stdin)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for the life of the process: input() finds nothing
    del sys.path[:2]  # this folder, and that beside it
    reporter = Reporter(stream, job["path"])
    warned = collect_warnings(job["path"])
    limit(job["seconds"], job["memory"])
    _make_parts(job.pop("parts"), job["allowed"])
    _hide()
    fence(job["path"], job["secret"], frozenset(job["banned"]), stream.fileno())
    try:
        _run(job, reporter)
    except TimeLimit as error:
        reporter.failed(error)
    reporter.say("end", warnings=warned)


def _run(job: Job, reporter: Reporter) -> None:
    reporter.enter("load", None)
    module = types.ModuleType("exercise")
    if not _attempt(reporter, _load, job, module):
        return
    pair = [getattr(module, name) for name in job["pair"]]
    refused = [_refusal(pair[0], len(job["arguments"])), _refusal(pair[1], 2)]
    reporter.say("loaded", signatures=refused)
    for index in range(0 if any(refused) else len(job["cases"])):
        _attempt(reporter, _slopes if job["oracle"] else _run_case, job, index, pair, reporter)


def _attempt(reporter: Reporter, action: Callable[..., None], *arguments: Any) -> bool:
    """Run action; False after an error in the learner's code, which is reported. TimeLimit ends the run."""
    try:
        action(*arguments)
        return True
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        reporter.failed(error)
        return False


def _hide() -> None:
    """From here on imports do not find this program's modules, only the learner's modules of the same names."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(OWN):
            del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")


def _make_parts(source: str, allowed: list[str]) -> None:
    """The module ``parts``: the solved exercises. A backward that this exercise may not use raises an error."""
    module = types.ModuleType("parts")
    exec(compile(source, "<parts>", "exec"), module.__dict__)
    for name in [n for n in vars(module) if n.endswith("_backward") and n not in allowed]:
        why = f"calls {name} of parts, which this exercise does not offer"
        setattr(module, name, lambda *args, why=why: sys.audit(REFUSE, why))
    sys.modules["parts"] = module


def _load(job: Job, module: types.ModuleType) -> None:
    """Run the learner's file as a module, not as a program."""
    module.__file__ = job["path"]
    sys.modules["exercise"] = module
    sys.path.append(os.path.dirname(job["path"]))  # last on the path: it may bring a helper, but not another NumPy
    exec(compile(job["source"], job["path"], "exec"), module.__dict__)


def _refusal(function: Any, count: int) -> str | None:
    """None if function takes count arguments by position, else its parameters as written."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "not a function"
    try:
        signature.bind(*range(count))
    except TypeError:
        return str(signature)
    return None


def _run_case(job: Job, index: int, pair: Pair, reporter: Reporter) -> None:
    """Forward, then backward twice: its calls are watched, then it is seen whether it changed its cache."""
    forward, backward = pair
    case = job["cases"][index]
    forms = dict(zip([*job["arguments"], "the incoming gradient"], [*case["arguments"], case["upstream"]], strict=True))
    values = {name: decode(form, case["gaps"]) for name, form in forms.items()}
    *arguments, upstream = values.values()

    def changed() -> list[str]:
        return [name for name, value in values.items() if json.dumps(encode(value)) != json.dumps(forms[name])]

    reporter.enter("forward", index)
    result = forward(*arguments)
    reporter.say("forward", result=encode(result, top=True), changed=changed())
    if not isinstance(result, tuple) or len(result) != 2:
        return
    reporter.enter("backward", index)
    with Measuring(forward, arguments, LIBRARY) as seen:
        gradients = backward(upstream, result[1])
    first, touched = encode(gradients, top=True), changed()
    lines = Lines(backward if index == 0 else None, encode)
    with contextlib.redirect_stdout(io.StringIO()), lines:  # a print is reported once
        gradients = backward(decode(case["upstream"], case["gaps"]), result[1])
    stable = json.dumps(first) == json.dumps(encode(gradients, top=True))
    reporter.say("backward", result=first, changed=touched, stable=stable, measuring=seen.signs(), lines=lines.last)


def _slopes(job: Job, index: int, pair: Pair, reporter: Reporter) -> None:
    reporter.enter("oracle", index)
    by_difference = slopes(pair[0], job["cases"][index], job["leaves"][index])
    reporter.say("oracle", result=encode(by_difference))


if __name__ == "__main__":
    main()
