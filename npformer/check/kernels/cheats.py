"""Numbers that no backward pass made: what shows if calls come in another order, and memory holds other numbers.

dy ignored           another dy gives the same gradient
earlier results      a fresh process, or another order of calls, gives other results
unwritten memory     what the memory held before shows in a result
measured slopes      the backward evaluates the forward at other numbers (seen by the process)
writes elsewhere     guards, inputs, dy or an earlier result are changed (seen by the process)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.check.kernels.child.memory import FILLS
from npformer.check.kernels.process import KernelProcess
from npformer.typing import HostArray

#: In units of u and of a result's largest entry: runs of the same code differ by less.
ALIKE = 64.0


class Results(NamedTuple):
    """What a forward and its backward gave, by name."""

    arrays: dict[str, HostArray]
    gradients: dict[str, HostArray]

    @classmethod
    def of(cls, y: Any, gradients: Sequence[HostArray | None], names: Sequence[str]) -> Results:
        found = {n: g for n, g in zip(names, gradients, strict=False) if g is not None}
        outputs = {f"output {i}": np.asarray(part) for i, part in enumerate(as_tuple(y))}
        return cls(outputs | {f"the gradient of {n}": g for n, g in found.items()}, found)


class Trial(NamedTuple):
    """A process of the kernel, and how its inputs are called."""

    kernel: KernelProcess
    wanted: Sequence[str]

    def __call__(self, inputs: Sequence[HostArray], seed: int, fill: int = 0) -> Results:
        """A forward and its backward, at the dy of this seed."""
        self.kernel.fill = fill
        y, cache = self.kernel.forward(*inputs)
        found = self.kernel.backward(dy_of(y, seed), cache)
        self.kernel.fill = 0
        return Results.of(y, found, self.wanted)


def dy_of(y: Any, seed: int) -> Any:
    """A random upstream gradient."""
    rng = np.random.default_rng([seed, 13])
    return like(y, [np.asarray(rng.normal(size=np.shape(part)), dtype=part.dtype) for part in as_tuple(y)])


def cheats(
    kernel: KernelProcess, start: Callable[[], KernelProcess], one: Sequence[HostArray], other: Sequence[HostArray],
    wanted: Sequence[str], u: float,
) -> Iterator[str]:  # fmt: skip
    """What the kernel does that no backward pass does, at two draws of inputs of the same shapes."""
    run = Trial(kernel, wanted)
    first, second, another_dy = run(one, 0), run(other, 0), run(one, 1)
    for name, g in first.gradients.items():
        if np.any(g != 0) and np.array_equal(g, another_dy.gradients[name]):
            yield f"ignores dy: the gradient of {name} is the same for another dy"
    with start() as fresh:
        alone = Trial(fresh, wanted)(other, 0)
    early = _apart(alone, second, u)
    if early:
        yield f"depends on earlier calls: {early} differs from that of a new process"
    else:
        caches = [kernel.forward(*inputs) for inputs in (one, other)]
        crossed = [Results.of(y, kernel.backward(dy_of(y, 0), cache), wanted) for y, cache in caches]
        if late := _apart(first, crossed[0], u) or _apart(second, crossed[1], u):
            yield f"keeps what belongs into the cache elsewhere: {late} is another if a second forward comes between"
    yield from _unwritten(first, run(one, 0, fill=1), u)
    kernel.watch = True
    run(one, 0)
    kernel.watch = False


def _unwritten(first: Results, again: Results, u: float) -> Iterator[str]:
    """What depends on the numbers that memory held, where it is to be written or was asked of NumPy."""
    for name, x in first.arrays.items():
        y = again.arrays[name]
        empty = np.isnan(x) & (y == FILLS[1])
        if np.any(empty):
            yield f"does not write {int(np.sum(empty))} of {x.size} entries of {name}"
        elif _differs(x, y, u):
            yield f"reads memory before it is written: {name} depends on what that held"


def _apart(expected: Results, got: Results, u: float) -> str:
    """The name of a result that differs, or ""."""
    return next((name for name, x in expected.arrays.items() if _differs(x, got.arrays[name], u)), "")


def _differs(x: HostArray, y: HostArray, u: float) -> bool:
    if x.shape != y.shape:
        return True
    x, y = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(x)
    same = np.array_equal(x[~finite], y[~finite], equal_nan=True)
    most = float(np.max(np.abs(x[finite]), initial=0.0))
    return not same or bool(np.any(~(np.abs(x - y)[finite] <= ALIKE * u * most)))
