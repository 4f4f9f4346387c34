"""Numbers that no backward pass made: what shows if calls come in another order, and memory holds other numbers.

    another each time    the same call gives another result
    dy ignored           another dy gives the same gradient
    earlier results      a new process, or another order of calls, gives other results
    unwritten memory     what the memory held before shows in a result

The kernel's process sees two more: measured slopes, and what is written where it should not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from npformer.check.inputs import as_tuple, like
from npformer.check.kernels.child.memory import FILLS
from npformer.check.kernels.process import KernelProcess
from npformer.typing import HostArray, HostArrays

#: In units of u and of a result's largest entry: runs of the same code differ by less.
ALIKE = 64.0
OF = "the gradient of "


def run(kernel: KernelProcess, inputs: Sequence[HostArray], wanted: Sequence[str], seed: int = 0) -> HostArrays:
    """The outputs and gradients of a forward and its backward at the dy of this seed, in float64."""
    return _pulled(kernel, wanted, seed, *kernel.forward(*inputs))


def _pulled(kernel: KernelProcess, wanted: Sequence[str], seed: int, y: Any, cache: Any) -> HostArrays:
    rng = np.random.default_rng([seed, 13])
    dy = like(y, [np.asarray(rng.normal(size=part.shape), dtype=part.dtype) for part in as_tuple(y)])
    gradients = zip(wanted, kernel.backward(dy, cache), strict=True)
    found = {f"output {i}": part for i, part in enumerate(as_tuple(y))}
    found |= {OF + name: np.zeros(1) if g is None else g for name, g in gradients}
    return {name: np.asarray(x, dtype=np.float64) for name, x in found.items()}


def cheats(
    kernel: KernelProcess, start: Callable[[], KernelProcess], one: Sequence[HostArray], other: Sequence[HostArray],
    wanted: Sequence[str], u: float,
) -> Iterator[str]:  # fmt: skip
    """What the kernel does that no backward pass does, at two draws of inputs of the same shapes."""
    first, again = run(kernel, one, wanted), run(kernel, one, wanted)
    if changed := _apart(first, again, u):
        yield f"is another at each call: {changed}"
        return
    second, another_dy = run(kernel, other, wanted), run(kernel, one, wanted, 1)
    for name, x in first.items():
        if name.startswith(OF) and np.any(x) and np.array_equal(x, another_dy[name]):
            yield f"ignores dy: {name} is the same for another dy"
    with start() as new:
        alone = run(new, other, wanted)
    if early := _apart(alone, second, u):
        yield f"depends on earlier calls: {early} differs from that of a new process"
    else:
        caches = [kernel.forward(*inputs) for inputs in (one, other)]
        crossed = [_pulled(kernel, wanted, 0, *cache) for cache in caches]
        if late := _apart(first, crossed[0], u) or _apart(second, crossed[1], u):
            yield f"keeps what belongs into the cache elsewhere: {late} is another if a second forward comes between"
    kernel.fill = 1
    for name, x in run(kernel, one, wanted).items():
        empty = np.isnan(first[name]) & (x == FILLS[1]) if x.shape == first[name].shape else np.zeros(1, bool)
        if np.any(empty):
            yield f"does not write {int(np.sum(empty))} of {x.size} entries of {name}"
        elif _apart({name: first[name]}, {name: x}, u):
            yield f"reads memory before it is written: {name} depends on what that held"
    kernel.fill, kernel.watch = 0, True
    run(kernel, one, wanted)
    kernel.watch = False


def _apart(expected: HostArrays, got: HostArrays, u: float) -> str:
    """The name of a result that differs by more than rounding, or ""."""
    for name, x in expected.items():
        y, most = got.get(name), float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
        if y is None or y.shape != x.shape or not np.allclose(x, y, rtol=0, atol=ALIKE * u * most, equal_nan=True):
            return name
    return ""
