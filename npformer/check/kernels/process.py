"""A kernel's file in a process of its own, as a pair of functions that ask it."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from npformer.check.inputs import as_tuple
from npformer.check.kernels.child.wire import receive, send
from npformer.check.kernels.files import KernelError, Reference
from npformer.io.child_process import GRACE, Limits, kill, started
from npformer.io.seconds import now, since
from npformer.typing import HostArray

CHILD = Path(__file__).parent / "child"
#: Of the time that is left: a call that takes more of it when the time is up does not return.
MOST_OF_IT = 0.5


class Ended(BaseException):
    """The kernel's process has ended, or its time; no Exception, so that no check goes on without it."""

    def __init__(self, why: str, is_kernels: bool = True) -> None:
        super().__init__(why)
        self.is_kernels = is_kernels  # else only the time is up


class _Cache:
    """Stands for a cache, which stays in the kernel's process until nobody holds this any more."""

    def __init__(self, number: int, inputs: Sequence[HostArray], is_single: bool, dropped: list[int]) -> None:
        self.number, self.inputs, self.is_single, self._dropped = number, inputs, is_single, dropped

    def __del__(self) -> None:
        self._dropped.append(self.number)


class KernelProcess:
    """The process, until ``close``. Its forward and backward raise KernelError, and Ended.

    faults: what the kernel wrote that it should not have, and signs of measured slopes; fill: what unwritten memory
    holds, one of two numbers; watch: whether slopes are looked for. deadline: in the seconds of ``now``.
    """

    def __init__(self, path: Path, reference: Reference, limits: Limits, deadline: float) -> None:
        self._reference, self._began, self._deadline = reference, now(), deadline
        self._shapes: dict[Any, list[tuple[int, ...]]] = {}  # of inputs, and of outputs
        self.faults: dict[str, None] = {}
        self.fill, self.watch, self._dropped, self._count = 0, False, list[int](), 0
        self._process = started(CHILD, path.resolve().parent, subprocess.DEVNULL)
        left = max(deadline - now(), 0.0)
        self._timer = threading.Timer(left, kill, [self._process])
        self._timer.daemon = True
        self._timer.start()
        job = {"path": str(path.resolve()), "seconds": max(left - GRACE, left / 2), "memory": limits.memory}
        self.fills: list[bool] = self._answer("load", lambda to: send(to, job))[0]["fills"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        kill(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # it was not read to its end
                stream.close()  # type: ignore[union-attr]
        self._process.wait()

    def forward(self, *inputs: HostArray) -> tuple[Any, _Cache]:
        """(y, cache) of the kernel."""
        given = [np.array(x, order="C") for x in inputs]
        sizes = tuple(x.shape for x in given)
        if sizes not in self._shapes:
            self._shapes[sizes] = self._reference.shapes(given)
        kind = next((x.dtype.str for x in given if x.dtype.kind == "f"), "<f4")
        out = [(f"output {i}", kind, shape) for i, shape in enumerate(self._shapes[sizes])]
        self._count += 1
        asked = {"number": self._count, "names": self._reference.names, "out": out}
        told, arrays = self._asked("forward", asked, given)
        is_single = len(arrays) == 1 and told["single"]
        return arrays[0] if is_single else tuple(arrays), _Cache(self._count, given, is_single, self._dropped)

    def backward(self, dy: Any, cache: _Cache) -> tuple[HostArray | None, ...]:
        """The kernel's gradients."""
        given = [np.asarray(part) for part in as_tuple(dy)]
        wanted = self._reference.wanted(cache.inputs)
        named = zip(self._reference.names, cache.inputs, strict=True)
        out = [(name, x.dtype.str, x.shape) for name, x in named if name in wanted]
        forms = [{"layout": _layout(part), "shape": part.shape} for part in given]
        asked = {"number": cache.number, "single": cache.is_single, "dy": forms, "out": out}
        told, arrays = self._asked("backward", asked, [_thin(part) for part in given])
        self.faults |= dict.fromkeys(f"measures slopes: {SIGNS[sign]}" for sign in told["signs"])
        left = iter(arrays)
        gradients = [None if is_none else next(left) for is_none in told["none"]]
        return tuple(gradients)

    def _asked(self, call: str, asked: dict[str, Any], arrays: list[HostArray]) -> tuple[dict[str, Any], Any]:
        """The kernel's answer to a call."""
        self._began = now()
        dropped = [self._dropped.pop() for _ in range(len(self._dropped))]
        head = {"call": call, "fill": self.fill, "watch": self.watch, "drop": dropped, **asked}
        told, answered = self._answer(call, lambda to: send(to, head, arrays))
        self.faults |= dict.fromkeys(f"{call} {fault}" for fault in told["faults"])
        return told, answered

    def _answer(self, call: str, say: Callable[[Any], None]) -> tuple[dict[str, Any], Any]:
        if now() >= self._deadline:
            raise Ended("the time was up before all was tried", is_kernels=False)
        try:
            say(self._process.stdin)
            told, arrays = receive(self._process.stdout)
        except Exception as error:  # it has ended, or it wrote something else
            raise self._ended(call) from error
        if told.get("is_late"):
            raise self._ended(call)
        if "failed" in told:
            raise KernelError(told["failed"])
        return told, arrays

    def _ended(self, call: str) -> Ended:
        """Why there is no answer."""
        if self._deadline - now() < 2 * GRACE:
            spent = since(self._began)
            is_kernels = spent > MOST_OF_IT * (self._deadline - self._began)
            return Ended(f"its {call} had not returned after {spent:.0f} s, when the time was up", is_kernels)
        kill(self._process)
        code = self._process.wait()
        by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Ended(f"its process ended in its {call} ({by})")


SIGNS = {
    "forward": "backward calls forward at other numbers than its own",
    "moved": "backward moves one number of an input after another",
    "complex": "backward computes with complex numbers",
    "unwatched": "backward takes away what watches its calls",
}


def _layout(x: HostArray) -> str:
    if x.ndim and 0 in x.strides and x.size > 1:
        return "broadcast"
    return "C" if x.flags.c_contiguous else "F" if x.flags.f_contiguous else "gaps"


def _thin(x: HostArray) -> HostArray:
    """x without what broadcasting repeats."""
    if _layout(x) != "broadcast":
        return np.array(x, order="C")
    return np.array(x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.strides)], order="C")
