"""A kernel's file in a process of its own, as a pair of functions that ask it."""

from __future__ import annotations

import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from npformer.check.inputs import as_tuple, is_float
from npformer.check.kernels.child.wire import receive, send
from npformer.check.kernels.files import KernelError, Task
from npformer.io.child_process import GRACE, Limits, kill, started
from npformer.io.seconds import now
from npformer.typing import HostArray

CHILD = Path(__file__).parent / "child"


class Ended(BaseException):
    """The kernel's process has ended, or its time; no Exception, so that no check goes on without it."""

    def __init__(self, why: str, is_its_own: bool = True) -> None:
        super().__init__(why)
        self.is_its_own = is_its_own  # else the time went elsewhere


class _Cache:
    """Stands for a cache, which stays in the kernel's process until nobody holds this any more."""

    def __init__(self, number: int, inputs: list[HostArray], is_single: bool, dropped: list[int]) -> None:
        self.number, self.inputs, self.is_single, self._dropped = number, inputs, is_single, dropped

    def __del__(self) -> None:
        self._dropped.append(self.number)


class KernelProcess:
    """The process, within a ``with`` block. Its forward and backward raise KernelError, and Ended.

    deadline: in the seconds of ``now``. fill: which number unwritten memory holds, the first or the second. watch:
    whether slopes are looked for. faults: what the kernel did that it should not have.
    """

    def __init__(self, task: Task, limits: Limits, deadline: float) -> None:
        self._reference, self._began, self._deadline = task.reference, now(), deadline
        self.faults: dict[str, None] = {}
        self.fill, self.watch, self._dropped, self._count = 0, False, list[int](), 0
        self._shapes: dict[Any, list[tuple[int, ...]]] = {}  # of inputs, and of outputs
        path, left = task.path.resolve(), max(deadline - now(), 0.0)
        self._process = started(CHILD, path.parent, subprocess.DEVNULL)
        self._timer = threading.Timer(left, kill, [self._process])
        self._timer.start()
        self._job = {"path": str(path), "seconds": max(left - GRACE, left / 2), "memory": limits.memory}

    def __enter__(self) -> Self:
        try:
            self._ask("load", self._job, [])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        kill(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # it was not read to its end
                stream.close()  # type: ignore[union-attr]
        self._process.wait()

    def forward(self, *inputs: HostArray) -> tuple[Any, _Cache]:
        """(y, cache) of the kernel. Raises KernelError, too, where the reference takes no inputs of these sizes."""
        given = [np.array(x, order="C") for x in inputs]
        sizes = tuple(x.shape for x in given)
        if sizes not in self._shapes:
            self._shapes[sizes] = self._reference.shapes(given)
        kind = next(x.dtype.str for x in given if is_float(x))
        out = [(f"output {i}", kind, shape) for i, shape in enumerate(self._shapes[sizes])]
        self._count += 1
        asked = {"number": self._count, "names": self._reference.names, "out": out}
        told, y = self._ask("forward", asked, given)
        return y[0] if told["single"] else tuple(y), _Cache(self._count, given, told["single"], self._dropped)

    def backward(self, dy: Any, cache: _Cache) -> tuple[HostArray | None, ...]:
        """The kernel's gradients, those of constants left out."""
        named = dict(zip(self._reference.names, cache.inputs, strict=True))
        floats, wanted = [n for n, x in named.items() if is_float(x)], self._reference.wanted(cache.inputs)
        out = [(f"the gradient of {n}", named[n].dtype.str, named[n].shape) for n in wanted]
        given = [np.asarray(part) for part in as_tuple(dy)]
        flat = [as_strided(x, (1 + sum(map(_span, x.shape, x.strides)) // x.itemsize,), (x.itemsize,)) for x in given]
        asked = {"number": cache.number, "dy": [(x.shape, x.strides) for x in given], "single": cache.is_single}
        told, found = self._ask("backward", asked | {"out": out}, flat)
        gradients = [None if is_none else found.pop(0) for is_none in told["none"]]
        if len(gradients) == len(floats):
            return tuple(g for n, g in zip(floats, gradients, strict=True) if n in wanted)
        if len(gradients) != len(wanted):
            expected = f"{len(wanted)} gradients, of {', '.join(wanted)}"
            raise KernelError(f"backward: expected {expected}, in this order, got {len(gradients)}")
        return tuple(gradients)

    def _ask(self, call: str, asked: dict[str, Any], arrays: list[HostArray]) -> tuple[dict[str, Any], Any]:
        """The kernel's answer to a call."""
        self._began = now()
        if self._began >= self._deadline:
            raise Ended("the time was up before all was tried", is_its_own=False)
        dropped = [self._dropped.pop() for _ in range(len(self._dropped))]
        head = {"call": call, "fill": self.fill, "watch": self.watch, "drop": dropped, **asked}
        try:
            send(self._process.stdin, head, arrays)
            told, answered = receive(self._process.stdout)
        except Exception as error:  # it has ended, or it wrote something else
            raise self._ended(call) from error
        if told.get("is_late"):
            raise self._ended(call)
        if "failed" in told:
            raise KernelError(told["failed"])
        self.faults |= dict.fromkeys(f"{call} {fault}" for fault in told["faults"])
        return told, answered

    def _ended(self, call: str) -> Ended:
        """Why there is no answer. A call that took most of the time that was left does not return."""
        if self._deadline - now() < 2 * GRACE:
            spent = now() - self._began
            is_its_own = spent > (self._deadline - self._began) / 2
            return Ended(f"its {call} had not returned after {spent:.0f} s, when the time was up", is_its_own)
        kill(self._process)
        code = self._process.wait()
        by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Ended(f"its process ended in its {call} ({by})")


def _span(size: int, stride: int) -> int:
    """Bytes from the first of so many elements to the last."""
    return (size - 1) * stride
