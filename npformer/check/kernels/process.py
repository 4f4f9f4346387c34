"""A kernel's file in a process of its own, as a pair of functions that ask it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from npformer.check.inputs import as_tuple, is_float
from npformer.check.kernels.files import KernelError, KernelTask
from npformer.io.child.values import kind
from npformer.io.child_process import GRACE, ChildEnded, Limits, python_child
from npformer.io.seconds import now
from npformer.typing import HostArray, Shape, Values

#: What is said of a measured gradient, by its sign.
SIGNS = {
    "forward": "measures slopes: it calls forward near its numbers",
    "moved": "measures slopes: it moves one number of an input after another",
    "complex": "measures slopes: it takes a complex step",
    "unwatched": "takes away what watches its calls",
}


class KernelEnded(BaseException):
    """The kernel's process has ended, or its time; no Exception, so that no check goes on without it."""

    def __init__(self, why: str, is_its_own: bool = True) -> None:
        super().__init__(why)
        self.is_its_own = is_its_own  # else the time went elsewhere


class _Cache:
    """Stands for a cache, which stays in the kernel's process until nobody holds this any more."""

    def __init__(self, number: int, inputs: list[HostArray], dropped: list[int]) -> None:
        self.number, self.inputs, self._dropped = number, inputs, dropped

    def __del__(self) -> None:
        self._dropped.append(self.number)


class KernelProcess:
    """The process, within a ``with`` block. Its forward and backward raise KernelError, and Ended.

    deadline: in the seconds of ``now``. fill: which number unwritten memory holds, the first or the second. watch:
    whether slopes are looked for. faults: what the kernel did that it should not have.
    """

    def __init__(self, task: KernelTask, limits: Limits, deadline: float) -> None:
        self._reference, self._began, self._deadline = task.reference, now(), deadline
        self.faults: dict[str, None] = {}
        self.fill, self.watch, self._dropped, self._count = 0, False, list[int](), 0
        self._shapes: dict[Any, list[Shape]] = {}  # of inputs, and of outputs
        path, left = task.path.resolve(), max(deadline - now(), 0.0)
        self._process = python_child(path.parent)
        self._bounds = {"path": str(path), "seconds": max(left - GRACE, left / 2), "memory": limits.memory}

    def __enter__(self) -> Self:
        try:
            self._ask("begin", self._bounds)
            self._ask("load", {"module": "kernel", "pair": ["forward", "backward"], "counts": [0, 0]})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.end()

    def forward(self, *inputs: HostArray) -> tuple[Any, _Cache]:
        """(y, cache) of the kernel. Raises KernelError, too, where the reference takes no inputs of these sizes."""
        given = [np.array(x, order="C") for x in inputs]
        sizes = tuple(x.shape for x in given)
        if sizes not in self._shapes:
            self._shapes[sizes] = self._reference.shapes(given)
        dtype = next(x.dtype.str for x in given if is_float(x))
        out = [(f"output {i}", dtype, shape) for i, shape in enumerate(self._shapes[sizes])]
        self._count += 1
        names = [f"its input {name}" for name in self._reference.names]
        told = self._ask("forward", {"number": self._count, "out": out}, list(zip(names, given, strict=True)))
        y = told["value"]
        if not told["is_pair"]:
            raise KernelError(f"forward: expected (y, cache), got {kind(y)}")
        arrays = _arrays(y)
        return arrays if isinstance(y, tuple) else arrays[0], _Cache(self._count, given, self._dropped)

    def backward(self, dy: Any, cache: _Cache) -> tuple[HostArray | None, ...]:
        """The kernel's gradients, those of constants left out."""
        named = dict(zip(self._reference.names, cache.inputs, strict=True))
        floats, wanted = [n for n, x in named.items() if is_float(x)], self._reference.wanted(cache.inputs)
        out = [(f"the gradient of {n}", named[n].dtype.str, named[n].shape) for n in wanted]
        given = tuple(map(np.asarray, dy)) if isinstance(dy, tuple) else np.asarray(dy)
        gradients = _arrays(self._ask("backward", {"number": cache.number, "out": out}, [("dy", given)])["value"])
        if len(gradients) == len(floats):
            return tuple(g for n, g in zip(floats, gradients, strict=True) if n in wanted)
        if len(gradients) != len(wanted):
            expected = f"{len(wanted)} gradients, of {', '.join(wanted)}"
            raise KernelError(f"backward: expected {expected}, in this order, got {len(gradients)}")
        return gradients

    def _ask(self, call: str, asked: Values, values: Any = ()) -> Values:
        """The kernel's answer to a call."""
        self._began = now()
        if self._began >= self._deadline:
            raise KernelEnded("the time was up before all was tried", is_its_own=False)
        dropped = [self._dropped.pop() for _ in range(len(self._dropped))]
        here = {"fill": self.fill, "watch": "near" * self.watch, "drop": dropped, **asked}
        try:
            told = self._process.call(call, self._deadline - self._began, values, **here)
        except ChildEnded as ended:
            raise self._ended(call, ended.code or str(ended)) from ended
        if failed := told.get("failed"):
            if told["is_late"]:
                raise self._ended(call, "late")
            line = f" (line {failed['line']})" * bool(failed["line"])
            raise KernelError(f"{failed['type']}: {failed['message'][:300]}{line}")
        faults = [*(SIGNS[sign] for sign in told.get("signs", ())), *told.get("faults", ())]
        faults += [f"changes {name}, which other code still needs" for name in told.get("changed", ())]
        self.faults |= dict.fromkeys(f"{call} {fault}" for fault in faults)
        return told

    def _ended(self, call: str, how: str) -> KernelEnded:
        """Why there is no answer. A call that took most of the time that was left does not return."""
        if self._deadline - now() < 2 * GRACE:
            spent = now() - self._began
            if spent <= (self._deadline - self._began) / 2:
                return KernelEnded("the time was up before all was tried", is_its_own=False)
            return KernelEnded(f"its {call} had not returned after {spent:.0f} s, when the time was up")
        return KernelEnded(f"its process ended in its {call} ({how})")


def _arrays(value: Any) -> tuple[HostArray | None, ...]:
    """A result's arrays, and None in the place of one. Raises KernelError for anything else."""
    if any(isinstance(part, str | dict | tuple) for part in as_tuple(value)):
        raise KernelError(f"TypeError: expected arrays of numbers, got {kind(value)}")
    return tuple(None if part is None else np.asarray(part) for part in as_tuple(value))
