"""Loads a learner's file, calls its pair on every case, and reports what happened."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import types
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from fence import NoAnswers, Reporter, TimeLimit, limit, watch  # type: ignore[import-not-found]
from slopes import slopes  # type: ignore[import-not-found]
from values import decode, encode, same  # type: ignore[import-not-found]

Job = dict[str, Any]


def main() -> None:
    """Read the job and run it."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # from here on whatever prints, in whatever way, prints to standard error
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    job = json.load(sys.stdin)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for the life of the process: input() finds nothing
    sys.path.pop(0)  # this folder
    reporter = Reporter(stream, job["path"])
    warnings.simplefilter("always")
    warnings.showwarning = reporter.warn
    limit(job["seconds"], job["memory"])
    _make_parts(job["parts"], job["allowed"], reporter)
    sys.meta_path.insert(0, NoAnswers(reporter, job["banned"]))
    watch(reporter, job["secret"])
    try:
        _run(job, reporter)
    except TimeLimit as error:
        reporter.failed(error)
    reporter.say("end", warnings=reporter.warned)


def _run(job: Job, reporter: Reporter) -> None:
    reporter.enter("load", None)
    module = types.ModuleType("exercise")
    if not _attempt(reporter, lambda: _load(job, module)):
        return
    pair = _Pair(module, job)
    refused = [_refusal(pair.forward, len(job["arguments"])), _refusal(pair.own_backward, 2)]
    reporter.say("loaded", signatures=refused)
    if any(refused):
        return
    for index in range(len(job["cases"])):
        _attempt(reporter, partial(_slopes if job["oracle"] else _run_case, job, index, pair, reporter))


def _attempt(reporter: Reporter, action: Callable[[], None]) -> bool:
    """Run action; False after an error of the learner's, which is reported. TimeLimit ends the run."""
    try:
        action()
        return True
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        reporter.failed(error)
        return False


def _make_parts(source: str, allowed: list[str], reporter: Reporter) -> None:
    """The module ``parts``: what is solved already. A backward that this exercise may not use refuses."""
    module = types.ModuleType("parts")
    exec(compile(source, "<parts>", "exec"), module.__dict__)
    for name in [n for n in vars(module) if n.endswith("_backward") and n not in allowed]:
        why = f"calls {name} of parts, which this exercise does not offer"
        setattr(module, name, lambda *args, why=why: reporter.refuse(why))
    sys.modules["parts"] = module


def _load(job: Job, module: types.ModuleType) -> None:
    """Run the learner's file as a module, not as a program."""
    module.__file__ = job["path"]
    sys.modules["exercise"] = module
    sys.path.append(os.path.dirname(job["path"]))  # last: a helper of theirs, never a NumPy of theirs
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


class _Pair:
    """The learner's two functions, and how often backward calls forward."""

    def __init__(self, module: types.ModuleType, job: Job) -> None:
        self.forward, self.own_backward = getattr(module, job["forward"]), getattr(module, job["backward"])
        self.calls, self._in_backward = 0, False
        setattr(module, job["forward"], self._counted)

    def _counted(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += self._in_backward
        return self.forward(*args, **kwargs)

    def backward(self, upstream: Any, cache: Any) -> Any:
        self._in_backward = True
        try:
            return self.own_backward(upstream, cache)
        finally:
            self._in_backward = False


def _run_case(job: Job, index: int, pair: _Pair, reporter: Reporter) -> None:
    """Forward, then backward twice, the second time to see whether the first one spoilt the cache."""
    case = job["cases"][index]
    gaps, forms = case["gaps"], [*case["arguments"], case["upstream"]]
    names = [*job["arguments"], "the incoming gradient"]
    *arguments, upstream = values = [decode(form, gaps) for form in forms]

    def changed() -> list[str]:
        given = zip(names, values, forms, strict=True)
        return [name for name, value, form in given if not same(value, decode(form, gaps))]

    reporter.enter("forward", index)
    result = pair.forward(*arguments)
    reporter.say("forward", result=encode(result, top=True), changed=changed())
    if not isinstance(result, tuple) or len(result) != 2:
        return
    reporter.enter("backward", index)
    pair.calls = 0
    found = encode(pair.backward(upstream, result[1]), top=True)
    touched, calls = changed(), pair.calls
    with contextlib.redirect_stdout(io.StringIO()):  # a print is to be read once
        again = encode(pair.backward(decode(case["upstream"], gaps), result[1]), top=True)
    stable = json.dumps(found) == json.dumps(again)
    reporter.say("backward", result=found, changed=touched, stable=stable, calls=calls)


def _slopes(job: Job, index: int, pair: _Pair, reporter: Reporter) -> None:
    reporter.enter("oracle", index)
    found = slopes(pair.forward, job["cases"][index], job["leaves"][index])
    reporter.say("oracle", result=encode(found))


if __name__ == "__main__":
    main()
