"""Loads a kernel's file, and runs its forward and backward as it is asked to."""

from __future__ import annotations

import inspect
import os
import sys
import types
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[3] / "io" / "child"))

import numpy as np
from limits import TimeLimit, library, limit  # type: ignore[import-not-found]
from memory import Lent, Memory, fill_unwritten  # type: ignore[import-not-found]
from numpy.lib.stride_tricks import as_strided
from slopes_seen import SlopesSeen  # type: ignore[import-not-found]
from wire import receive, send  # type: ignore[import-not-found]

LIBRARY = library()
REMEMBERED = 8  # so many results are looked at again: no later call may write into them
Answer = tuple[dict[str, Any], list[Any]]


class Kernel:
    """The kernel's functions, its memory, and the caches of forwards whose backward may follow."""

    def __init__(self, path: str) -> None:
        source = Path(path).read_bytes()
        self.fill, self._memory, self._returned = 0, Memory(), list[tuple[Any, bytes]]()
        self._caches: dict[int, tuple[Any, list[Lent], Any]] = {}
        if b"numba" not in source:  # which compiles np.empty itself
            fill_unwritten(lambda: self.fill)
        module = types.ModuleType("kernel")
        module.__file__, sys.modules["kernel"] = path, module
        sys.path.append(os.path.dirname(path))
        exec(compile(source, path, "exec"), module.__dict__)
        self._functions: dict[str, Any] = {name: getattr(module, name, None) for name in ("forward", "backward")}
        for name, function in self._functions.items():
            if not callable(function):
                raise TypeError(f"expected a function {name}, got {_kind(function)}")

    def forward(self, asked: dict[str, Any], arrays: list[Any]) -> Answer:
        lent = [self._memory.lend(f"its input {name}", x) for name, x in zip(asked["names"], arrays, strict=True)]
        given = [one.array for one in lent]
        seen = SlopesSeen(self._functions["forward"], given, LIBRARY) if asked["watch"] else None
        result, out = self._called("forward", given, asked["out"], seen)
        if not out and (not isinstance(result, tuple) or len(result) != 2):
            raise TypeError(f"forward: expected (y, cache), got {_kind(result)}")
        y, cache = (tuple(one.array for one in out), result) if out else result
        self._caches[asked["number"]] = cache, lent, seen
        is_single = len(out) == 1 or not isinstance(y, tuple | list)
        return self._answer({"single": is_single}, y, [*lent, *out], out, [])

    def backward(self, asked: dict[str, Any], arrays: list[Any]) -> Answer:
        cache, inputs, seen = self._caches[asked["number"]]
        lent = [self._memory.lend("dy", x) for x in arrays]
        dy = [as_strided(one.array, *form) for one, form in zip(lent, asked["dy"], strict=True)]
        given = dy[0] if asked["single"] else tuple(dy), cache
        result, out = self._called("backward", given, asked["out"], seen)
        result = tuple(one.array for one in out) if out else result
        signs = seen.signs() if seen is not None else []
        answer = self._answer({}, result, [*inputs, *lent, *out], out, signs)
        self._memory.give_back(lent)
        return answer

    def drop(self, numbers: list[int]) -> None:
        """Forget caches; the memory of their inputs is used again."""
        for number in numbers:
            self._memory.give_back(self._caches.pop(number)[1])

    def _called(self, name: str, given: Any, out: Any, seen: Any) -> tuple[Any, list[Lent]]:
        """(what a function returned, the memory that it had to write into, if it takes that)."""
        function = self._functions[name]
        takes_out = "out" in inspect.signature(function).parameters
        lent = [self._memory.lend_to_write(*one, self.fill) for one in out if takes_out]
        with seen or nullcontext():
            result = function(*given, **({"out": tuple(one.array for one in lent)} if takes_out else {}))
        return result, lent

    def _answer(self, told: dict[str, Any], result: Any, lent: list[Lent], out: list[Lent], seen: list[str]) -> Answer:
        """What is sent: the arrays, which of them are None, and what was written where it should not have been."""
        parts = list(result) if isinstance(result, tuple | list) else [result]
        arrays = [np.asarray(part) for part in parts if part is not None]
        if any(array.dtype.kind not in "fiub" for array in arrays):
            raise TypeError(f"expected arrays of numbers, got {_kind(result)}")
        faults = [*seen, *(fault for one in lent for fault in one.faults())]
        if any(array.tobytes() != before for array, before in self._returned):
            faults.append("writes into an array that an earlier call returned")
        kept = [*(array for array, _ in self._returned), *arrays]
        kept = [x for x in kept if not any(np.may_share_memory(x, one.raw) for one in lent)]
        self._returned = [(array, array.tobytes()) for array in kept[-REMEMBERED:]]
        sent = [array.copy() for array in arrays]
        self._memory.give_back(out)
        return {**told, "none": [part is None for part in parts], "faults": faults}, sent


def _failed(error: BaseException, path: str) -> dict[str, Any]:
    """What was raised, with the last line of the kernel's file that it passed through."""
    line, trace = "", error.__traceback__
    while trace is not None:
        line = f" (line {trace.tb_lineno})" if trace.tb_frame.f_code.co_filename == path else line
        trace = trace.tb_next
    return {"failed": f"{type(error).__name__}: {str(error)[:300]}{line}", "is_late": isinstance(error, TimeLimit)}


def _kind(x: Any) -> str:
    return f"a tuple of {len(x)}" if isinstance(x, tuple) else "none" if x is None else f"a {type(x).__name__}"


def main() -> None:
    """Answer requests, the first of which names the file, until there are no more."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # from here on prints go nowhere
    sys.stdin = open(os.devnull)  # noqa: SIM115 - as long as the process
    os.dup2(sys.stdin.fileno(), 0)
    del sys.path[:2]
    job, _ = receive(source)
    limit(job["seconds"], job["memory"], is_alone=False)
    try:
        kernel = Kernel(job["path"])
        answer: Answer = {"faults": []}, []
        while True:
            send(target, *answer)
            asked, arrays = receive(source)
            kernel.drop(asked["drop"])
            kernel.fill = asked["fill"]
            try:
                answer = getattr(kernel, asked["call"])(asked, arrays)
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                answer = _failed(error, job["path"]), []
    except EOFError:
        pass
    except (Exception, SystemExit, TimeLimit) as error:
        send(target, _failed(error, job["path"]))


if __name__ == "__main__":
    main()
