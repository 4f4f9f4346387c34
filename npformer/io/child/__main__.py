"""Loads a file that somebody wrote, and runs its forward and backward as it is asked to."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fence import REFUSE, fence  # type: ignore[import-not-found]
from limits import OWN, TimeLimit, library, limit  # type: ignore[import-not-found]
from lines import LineValues  # type: ignore[import-not-found]
from measuring import Measuring  # type: ignore[import-not-found]
from memory import Lent, Memory, fill_unwritten  # type: ignore[import-not-found]
from numpy.lib.stride_tricks import as_strided
from slopes import slopes  # type: ignore[import-not-found]
from values import decode, encode  # type: ignore[import-not-found]
from wire import receive, send  # type: ignore[import-not-found]

LIBRARY = library()
REMEMBERED = 8  # so many results are looked at again: no later call may write into them
Asked = dict[str, Any]
Answer = tuple[dict[str, Any], list[Any]]


class Program:
    """The file's functions, the memory that they read, and the caches of forwards whose backward may follow."""

    def __init__(self, stream: int) -> None:
        self.path, self.fill, self.warned = "", 0, list[dict[str, Any]]()
        self._stream, self._memory, self._returned = stream, Memory(), list[tuple[Any, bytes]]()
        self._caches: dict[int, tuple[Any, list[Lent], Any]] = {}
        self._pair: list[Any] = []

    def begin(self, asked: Asked, arrays: list[Any]) -> Answer:
        """Bound what follows; a learner's file gets parts, and a fence."""
        self.path, parts = asked["path"], asked.get("parts")
        warnings.simplefilter("always")
        warnings.showwarning = self._note
        limit(asked["seconds"], asked["memory"], parts is not None)
        _hide()
        if parts is not None:
            _make_parts(parts, asked["allowed"])
            fence(self.path, asked["secret"], frozenset(asked["banned"]), self._stream)
        return {}, []

    def load(self, asked: Asked, arrays: list[Any]) -> Answer:
        """Run the file as a module; "signatures": of functions that cannot be called with so many arguments."""
        source = asked.get("source")
        if source is None:
            source = Path(self.path).read_bytes()
            if b"numba" not in source:  # which compiles np.empty itself
                fill_unwritten(lambda: self.fill)
        module = types.ModuleType(asked["module"])
        module.__file__, sys.modules[asked["module"]] = self.path, module
        sys.path.append(os.path.dirname(self.path))  # last: it may bring a helper, but not another NumPy
        exec(compile(source, self.path, "exec"), module.__dict__)
        for name in asked["pair"]:
            self._pair.append(getattr(module, name, None))
            if not callable(self._pair[-1]):
                raise TypeError(f"expected a function {name}, got {type(self._pair[-1]).__name__}")
        return {"signatures": list(map(_refusal, self._pair, asked["counts"]))}, []

    def forward(self, asked: Asked, arrays: list[Any]) -> Answer:
        """The output of a forward, whose cache stays here under a number."""
        lent, given = self._lent(asked, arrays)
        seen = Measuring(self._pair[0], given, LIBRARY, asked["watch"] == "strictly") if asked["watch"] else None
        result, out = self._called(0, given, asked, seen)
        is_pair = bool(out) or (isinstance(result, tuple) and len(result) == 2)
        y, cache = result if is_pair and not out else (result, result)
        self._caches[asked["number"]] = cache, lent, seen
        if out:
            y = tuple(one.array for one in out) if len(out) > 1 else out[0].array
        return self._answer({"is_pair": is_pair}, y, [*lent, *out], out)

    def backward(self, asked: Asked, arrays: list[Any]) -> Answer:
        """The gradients; if follow, also what the function's lines set; if quiet, without its prints."""
        cache, inputs, seen = self._caches[asked["number"]]
        lent, (dy,) = self._lent(asked, arrays)
        lines, seen = LineValues(self._pair[1] if asked.get("follow") else None), seen if asked["watch"] else None
        prints = contextlib.redirect_stdout(io.StringIO()) if asked.get("quiet") else contextlib.nullcontext()
        with prints, lines if asked.get("follow") else contextlib.nullcontext():
            result, out = self._called(1, (dy, cache), asked, seen)
        result = tuple(one.array for one in out) if out else result
        told = {"signs": seen.signs() if seen is not None else []}
        told, sent = self._answer(told, result, [*inputs, *lent, *out], out)
        told["lines"] = {name: (line, encode(value, sent)) for name, (line, value) in lines.last.items()}
        self._memory.give_back(lent)
        return told, sent

    def slopes(self, asked: Asked, arrays: list[Any]) -> Answer:
        """The derivative of the forward, measured."""
        _, (arguments, upstream) = self._lent(asked, arrays)
        sent: list[Any] = []
        return {"form": encode(slopes(self._pair[0], arguments, upstream, asked["leaves"]), sent)}, sent

    def drop(self, numbers: list[int]) -> None:
        """Forget caches; the memory of their inputs is used again."""
        for number in numbers:
            self._memory.give_back(self._caches.pop(number)[1])

    def _lent(self, asked: Asked, arrays: list[Any]) -> tuple[list[Lent], Any]:
        """Copies of arrays that are not to be changed, and the values that they are parts of."""
        lent = [self._memory.lend(name, x) for name, x in zip(asked["names"], arrays, strict=True)]
        placed = [as_strided(one.array, *form) for one, form in zip(lent, asked["forms"], strict=True)]
        return lent, decode(asked["given"], placed)

    def _called(self, which: int, given: Any, asked: Asked, seen: Any) -> tuple[Any, list[Lent]]:
        """(what a function returned, the memory that it had to write into, if it takes that)."""
        function, lent, out = self._pair[which], list[Lent](), asked.get("out", ())
        if out and "out" in inspect.signature(function).parameters:
            lent = [self._memory.lend_to_write(*one, self.fill) for one in out]
        with seen or contextlib.nullcontext():
            result = function(*given, **({"out": tuple(one.array for one in lent)} if lent else {}))
        return result, lent

    def _answer(self, told: dict[str, Any], result: Any, lent: list[Lent], out: list[Lent]) -> Answer:
        """What is sent: the result, and what was written where it should not have been."""
        sent: list[Any] = []
        told |= {"form": encode(result, sent, top=True), "changed": [one.name for one in lent if one.is_changed()]}
        faults = [fault for one in lent for fault in one.faults()]
        if any(array.tobytes() != before for array, before in self._returned):
            faults.append("writes into an array that an earlier call returned")
        kept = [*(array for array, _ in self._returned), *sent]
        kept = [x for x in kept if not any(np.may_share_memory(x, one.raw) for one in lent)]
        self._returned = [(array, array.tobytes()) for array in kept[-REMEMBERED:]]
        self._memory.give_back(out)
        return {**told, "faults": faults}, sent

    def _note(
        self, message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        """Note one of the first few warnings, with its line of the file."""
        told = {"message": str(message)[:200], "line": lineno if filename == self.path else None}
        if told not in self.warned and len(self.warned) < 5:
            self.warned.append(told)


def _hide() -> None:
    """From here on imports do not find this program's modules, only a stranger's of the same names."""
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


def _refusal(function: Any, count: int) -> str | None:
    """None if function takes count arguments by position, else its parameters as written."""
    with contextlib.suppress(ValueError):  # a function in C tells nothing
        signature = inspect.signature(function)
        try:
            signature.bind(*range(count))
        except TypeError:
            return str(signature)
    return None


def _failed(error: BaseException, path: str) -> dict[str, Any]:
    """An error, with the last line of the file that it passed through."""
    passed = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in passed if frame.f_code.co_filename == path]
    told = {"type": type(error).__name__, "message": str(error)[:2000], "line": lines[-1] if lines else None}
    return {"failed": told, "is_late": isinstance(error, TimeLimit)}


def main() -> None:
    """Answer requests until there are no more."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # from here on every print goes to standard error
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdin = open(os.devnull)  # noqa: SIM115 - for the life of the process: input() finds nothing
    os.dup2(sys.stdin.fileno(), 0)
    del sys.path[0]
    program = Program(target.fileno())
    while True:
        try:
            asked, arrays = receive(source)
        except EOFError:
            return
        program.drop(asked.get("drop", []))
        program.fill = asked.get("fill", 0)
        try:
            told, sent = getattr(program, asked["ask"])(asked, arrays)
        except (Exception, SystemExit, KeyboardInterrupt, TimeLimit) as error:
            told, sent = _failed(error, program.path), []
        send(target, {**told, "warnings": program.warned}, sent)


if __name__ == "__main__":
    main()
