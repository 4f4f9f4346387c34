"""Loads a kernel's file, and runs its forward and backward as it is asked to."""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[3] / "io" / "child"))

import numpy as np
from limits import TimeLimit, library, limit  # type: ignore[import-not-found]
from memory import Lent, Memory, fill_unwritten  # type: ignore[import-not-found]
from slopes_seen import SlopesSeen  # type: ignore[import-not-found]
from wire import receive, send  # type: ignore[import-not-found]

LIBRARY = library()
#: So many results are looked at again: no later call may write into them.
REMEMBERED = 8


class Kernel:
    """The kernel's functions, its memory, and the caches of forwards whose backward may follow."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._path, self._fill = job["path"], 0
        source = Path(self._path).read_bytes()
        if b"numba" not in source:  # which compiles np.empty itself
            fill_unwritten(lambda: self._fill)
        module = types.ModuleType("kernel")
        module.__file__, sys.modules["kernel"] = self._path, module
        sys.path.append(os.path.dirname(self._path))
        exec(compile(source, self._path, "exec"), module.__dict__)
        self._forward, self._backward = _function(module, "forward"), _function(module, "backward")
        self.fills = ["out" in inspect.signature(f).parameters for f in (self._forward, self._backward)]
        self._memory, self._returned = Memory(), list[tuple[Any, bytes]]()
        self._caches: dict[int, tuple[Any, list[Lent], Any]] = {}

    def forward(self, asked: dict[str, Any], arrays: list[Any]) -> tuple[dict[str, Any], list[Any]]:
        lent = [self._memory.lend(f"its input {name}", x) for name, x in zip(asked["names"], arrays, strict=True)]
        given = [one.array for one in lent]
        seen = SlopesSeen(self._forward, given, LIBRARY) if asked["watch"] else _Unwatched()
        with seen:
            result, out = self._called(self._forward, given, asked["out"] if self.fills[0] else None, "")
        seen.is_forward = False
        if not self.fills[0] and (not isinstance(result, tuple) or len(result) != 2):
            raise TypeError(f"forward: expected (y, cache), got {_kind(result)}")
        y, cache = (tuple(one.array for one in out), result) if self.fills[0] else result
        self._caches[asked["number"]] = cache, lent, seen
        told = {"single": (self.fills[0] and len(out) == 1) or not isinstance(y, tuple | list)}
        return self._answer(told, y, [*lent, *out], out)

    def backward(self, asked: dict[str, Any], arrays: list[Any]) -> tuple[dict[str, Any], list[Any]]:
        cache, inputs, seen = self._caches[asked["number"]]
        given = [self._upstream(*one) for one in zip(arrays, asked["dy"], strict=True)]
        dy = given[0][1] if asked["single"] else tuple(array for _, array in given)
        with seen:
            result, out = self._called(
                self._backward, (dy, cache), asked["out"] if self.fills[1] else None, "the gradient of "
            )
        if self.fills[1]:
            result = tuple(one.array for one in out)
        lent = [one for one, _ in given]
        answer = self._answer({"signs": seen.signs()}, result, [*inputs, *lent, *out], out)
        self._memory.give_back(lent)
        return answer

    def drop(self, numbers: list[int]) -> None:
        """Forget caches; the memory of their inputs is used again."""
        for number in numbers:
            self._memory.give_back(self._caches.pop(number)[1])

    def filling(self, fill: int) -> None:
        """Which of FILLS unwritten memory holds."""
        self._fill = fill

    def _called(self, function: Callable[..., Any], given: Any, out: Any, what: str) -> tuple[Any, list[Lent]]:
        """(what the function returned, the memory that it had to write into)."""
        lent = [self._memory.lend_to_write(what + name, kind, shape, self._fill) for name, kind, shape in out or ()]
        return function(*given, **({} if out is None else {"out": tuple(one.array for one in lent)})), lent

    def _upstream(self, x: Any, form: dict[str, Any]) -> tuple[Lent, Any]:
        """dy in the layout that is asked for."""
        if form["layout"] == "gaps":
            lent = self._memory.lend("dy", np.repeat(x, 2, axis=-1))
            return lent, lent.array[..., ::2]
        lent = self._memory.lend("dy", x.T if form["layout"] == "F" else x)
        array = lent.array.T if form["layout"] == "F" else lent.array
        return lent, np.broadcast_to(array, form["shape"]) if form["layout"] == "broadcast" else array

    def _answer(
        self, told: dict[str, Any], result: Any, lent: list[Lent], out: list[Lent]
    ) -> tuple[dict[str, Any], list[Any]]:
        """What is sent: the arrays, which of them are None, and what was written where it should not have been."""
        parts = list(result) if isinstance(result, tuple | list) else [result]
        arrays = [np.asarray(part) for part in parts if part is not None]
        for array in arrays:
            if array.dtype.kind not in "fiub":
                raise TypeError(f"expected arrays of numbers, got {_kind(result)}")
        faults = [fault for one in lent for fault in one.faults()]
        if any(array.tobytes() != before for array, before in self._returned):
            faults.append("writes into an array that an earlier call returned")
        self._returned = [
            (array, array.tobytes())
            for array in [*[array for array, _ in self._returned], *arrays]
            if not any(np.may_share_memory(array, one.raw) for one in lent)
        ][-REMEMBERED:]
        sent = [array.copy() for array in arrays]
        self._memory.give_back(out)
        return {**told, "none": [part is None for part in parts], "faults": faults}, sent


class _Unwatched(nullcontext[None]):
    is_forward = True

    def signs(self) -> list[str]:
        return []


def _function(module: types.ModuleType, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise TypeError(f"expected a function {name}, got {'none' if function is None else _kind(function)}")
    return function


def failed(error: BaseException, path: str) -> dict[str, Any]:
    """What was raised, with the last line of the kernel's file that it passed through."""
    line, trace = "", error.__traceback__
    while trace is not None:
        line = f" (line {trace.tb_lineno})" if trace.tb_frame.f_code.co_filename == path else line
        trace = trace.tb_next
    return {"failed": f"{type(error).__name__}: {str(error)[:300]}{line}", "is_late": isinstance(error, TimeLimit)}


def _kind(x: Any) -> str:
    return f"a tuple of {len(x)}" if isinstance(x, tuple) else "None" if x is None else f"a {type(x).__name__}"


def main() -> None:
    """Read the job, then answer requests until there are no more."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # from here on prints go nowhere
    sys.stdin = open(os.devnull)  # noqa: SIM115 - as long as the process
    os.dup2(sys.stdin.fileno(), 0)
    del sys.path[:2]
    job, _ = receive(source)
    limit(job["seconds"], job["memory"], is_alone=False)
    try:
        kernel = Kernel(job)
        send(target, {"fills": kernel.fills})
        while True:
            asked, arrays = receive(source)
            kernel.drop(asked["drop"])
            kernel.filling(asked["fill"])
            try:
                answer = getattr(kernel, asked["call"])(asked, arrays)
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                answer = failed(error, job["path"]), []
            send(target, *answer)
    except EOFError:
        pass
    except (Exception, SystemExit, TimeLimit) as error:
        send(target, failed(error, job["path"]))


if __name__ == "__main__":
    main()
