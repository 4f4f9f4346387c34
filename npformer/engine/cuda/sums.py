"""Gradients that are sums over all tokens (of biases, of γ and β): first partial sums of rows, then their sum.

A backward pass has dozens of such sums, of which each alone is a launch of a few small blocks. Within
``backward_pass`` they are put off, with the arrays that they read, and made together at its end, by two kernels or
three. The numbers are the same to the bit: the order of a sum does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from npformer.backend.numpy.gradients import Into
from npformer.backend.ops import add_into
from npformer.engine.cuda.device_runtime import DeviceRuntime, by_value
from npformer.typing import Array

#: The most partial sums of a kernel that sums rows itself: four blocks per multiprocessor of a large GPU.
PARTS = 528
#: A block sums COLUMNS columns in GROUPS groups of rows, and a launch makes at most MOST_SUMS sums, as sums.cu says.
COLUMNS, GROUPS, MOST_SUMS = 32, 32, 60
#: The most rows that one pass sums. More rows are split into at most MOST_PARTS parts of this many rows.
ONE_PASS, ROWS_OF_A_PART, MOST_PARTS = 1024, 512, 64


class Sum(NamedTuple):
    """total (C,) = the sum of the rows of x (N, C), which may have gaps between them; or, with add, plus that sum."""

    x: Array
    total: Array
    add: bool
    parts: int = 1  # or total (parts, C) = the sums of so many parts of the rows


class Later:
    """Sums that are put off to the end of a backward pass, or until they fill a launch, since their arrays take memory.

    Until then nobody may read their totals. And the gradient to which a product may add another one of the same array.
    And, in a pass that is known, the linear map that waits for the next operation (``linear.Affine``).
    """

    def __init__(self, gpu: DeviceRuntime, known: bool = False) -> None:
        self._gpu = gpu
        self.known = known
        self.waiting: Any = None
        self._sums: list[Sum] = []
        self._open: tuple[Array, Array] | None = None  # an array, and a gradient of it
        self._closed: Array | None = None  # a gradient to which another was added

    def put(self, sums: Iterable[Sum]) -> None:
        """Put off sums. One whose total is another's, of a layer used twice, comes after it."""
        for each in sums:
            if len(self._sums) == MOST_SUMS or any(overlap(self._gpu, each.total, x.total) for x in self._sums):
                self.make()
            self._sums.append(each)

    def before_writing(self, x: Array) -> None:
        """Make the sums now if one of them reads memory of x, which is going to be written."""
        if any(overlap(self._gpu, x, each.x) for each in self._sums):
            self.make()

    def open(self, x: Array, dx: Array) -> None:
        """``DeviceBranches.open``."""
        self._open, self._closed = (x, dx), None

    def closed(self, dx: Array) -> bool:
        """``DeviceBranches.closed``."""
        self._open = None
        return self._closed is dx

    def gradient_of(self, x: Array) -> Array | None:
        """The open gradient, if it is one of x (N, C): whoever asks adds the other to it. None: there is none."""
        if self._open is None:
            return None
        whole, dx = self._open
        there = (whole.size, whole.dtype) == (x.size, x.dtype) and self._gpu.address(whole) == self._gpu.address(x)
        if not there or not (whole.flags.c_contiguous and x.flags.c_contiguous and dx.flags.c_contiguous):
            return None
        self.before_writing(dx)
        self._open, self._closed = None, dx
        return dx

    def settle(self) -> None:
        """Make the map that waits, since an operation begins that may read it."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.make(self._gpu)

    def make(self) -> None:
        """Make all of them."""
        sums, self._sums = self._sums, []
        make_sums(self._gpu, sums)


class DeviceBranches:
    """Adds the gradient of a sub-layer's input to that of the stream, the same array, within a backward pass."""

    def __init__(self, gpu: DeviceRuntime) -> None:
        self._gpu = gpu

    def open(self, x: Array, dx: Array) -> None:
        """dx is one gradient of x, and the next operation with x as its input may add its own to it, in place."""
        if self._gpu.later is not None:
            self._gpu.later.open(x, dx)

    def closed(self, dx: Array) -> bool:
        """Whether it has: then its gradient is the sum of both."""
        return self._gpu.later is not None and bool(self._gpu.later.closed(dx))


def overlap(gpu: DeviceRuntime, x: Array, y: Array) -> bool:
    """Whether the memory between the first and last numbers of x overlaps that of y."""
    behind = [z.itemsize + sum((n - 1) * step for n, step in zip(z.shape, z.strides, strict=True)) for z in (x, y)]
    apart = gpu.address(y) - gpu.address(x)
    return bool(x.size and y.size and -behind[1] < apart < behind[0])


@contextmanager
def backward_pass(gpu: DeviceRuntime, known: bool = False) -> Iterator[None]:
    """Within it sums are put off, and at its end they are made. known: as ``Capabilities`` says."""
    gpu.later = Later(gpu, known)
    try:
        yield
        gpu.later.settle()
        gpu.later.make()
    finally:
        gpu.later = None


def parts_of(rows: int, most: int = PARTS) -> int:
    """The number of parts for this many rows. It depends on nothing else, so two runs agree to the bit."""
    return max(1, min(most, -(-rows // 2)))


def column_sums(gpu: DeviceRuntime, x: Array, into: Array | None = None) -> Array:
    """Σ of the rows of x (N, C), maybe a view of columns, added to into (C,) or, if that is None, in a new array."""
    if into is None:
        total = gpu.empty((x.shape[1],), x.dtype)
        make_sums(gpu, [Sum(x, total, False)])
        return total
    if into.flags.c_contiguous:
        _add_sums(gpu, [Sum(x, into, True)])
    else:
        add_into((column_sums(gpu, x),), (into,))
    return into


def add_both(gpu: DeviceRuntime, partials: Array, into: Into) -> tuple[Array, ...]:
    """Σ of the rows of partials (P, 2, C), two sums in one kernel: returned, or added to the two arrays in into.

    None is skipped. If into has only the second sum's array, the first sum is returned.
    """
    parts, _, width = partials.shape
    if len(into) == 2 and all(place is None or place.flags.c_contiguous for place in into):
        pairs = [(partials[:, i], place) for i, place in enumerate(into) if place is not None]
        if len(pairs) == 2 and gpu.address(pairs[0][1]) + pairs[0][1].nbytes == gpu.address(pairs[1][1]):
            pairs = [(partials.reshape(parts, 2 * width), pairs[0][1])]  # adjacent totals are one
        _add_sums(gpu, [Sum(x, place, True) for x, place in pairs])
        return ()
    total = gpu.empty((2, width), partials.dtype)
    make_sums(gpu, [Sum(partials.reshape(parts, 2 * width), total, False)])
    return add_into((total[0], total[1]), into)


def _add_sums(gpu: DeviceRuntime, sums: Iterable[Sum]) -> None:
    """Make these sums, at once or at the end of the backward pass."""
    if gpu.later is None:
        make_sums(gpu, sums)
    else:
        gpu.later.put(sums)


def make_sums(gpu: DeviceRuntime, sums: Iterable[Sum]) -> None:
    """All these sums, of different totals."""
    first, last = [], []
    for each in sums:
        rows, width = each.x.shape
        if rows > ONE_PASS:
            parts = min(MOST_PARTS, -(-rows // ROWS_OF_A_PART))
            partials = gpu.empty((parts, width), each.x.dtype)
            first.append(Sum(each.x, partials, False, parts))
            each = each._replace(x=partials)
        last.append(each)
    _launch(gpu, first)
    _launch(gpu, last)


def _launch(gpu: DeviceRuntime, sums: Sequence[Sum]) -> None:
    """One pass."""
    for start in range(0, len(sums), MOST_SUMS):
        some, numbers, blocks, threads = sums[start : start + MOST_SUMS], list[int](), 0, 1
        for x, total, add, parts in some:
            rows, width = x.shape
            blocks += parts * -(-width // COLUMNS)
            apart = x.strides[0] // x.dtype.itemsize
            numbers += [gpu.address(x), gpu.address(total), rows, apart, width, parts, add, blocks]
            threads = max(threads, min(GROUPS, -(-rows // parts)))
        table = by_value(numbers, 8 * MOST_SUMS)
        gpu.launch("sums.add_rows", some[0].x.dtype, blocks, COLUMNS * threads, table, len(some))
