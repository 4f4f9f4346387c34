"""Gradients that are sums over all tokens (of biases, of γ and β): first partial sums of rows, then their sum."""

from __future__ import annotations

from npformer.backend.numpy.gradients import Into
from npformer.backend.ops import add_into
from npformer.engine.cuda.device_runtime import DeviceRuntime
from npformer.typing import Array

#: The most partial sums of a kernel that sums rows itself: four blocks per multiprocessor of a large GPU.
PARTS = 528
#: A block sums COLUMNS columns in GROUPS groups of rows, as sums.cu says.
COLUMNS, GROUPS = 32, 32
#: The most rows that one pass sums. More rows are split into at most MOST_PARTS parts of this many rows.
ONE_PASS, ROWS_OF_A_PART, MOST_PARTS = 1024, 512, 64


def parts_of(rows: int, most: int = PARTS) -> int:
    """The number of parts for this many rows. It depends on nothing else, so two runs agree to the bit."""
    return max(1, min(most, -(-rows // 2)))


def column_sums(gpu: DeviceRuntime, x: Array, into: Array | None = None) -> Array:
    """Σ of the rows of x (N, C), row-major, added to into (C,) or, if that is None, in a new array. Returns the sum."""
    rows, width = x.shape
    if rows <= ONE_PASS:
        return add_partials(gpu, x, into)
    partials = gpu.empty((min(MOST_PARTS, -(-rows // ROWS_OF_A_PART)), width), x.dtype)
    _launch(gpu, x, partials.shape[0], partials, None, width, add=False)
    return add_partials(gpu, partials, into)


def add_partials(gpu: DeviceRuntime, partials: Array, into: Array | None = None) -> Array:
    """Σ of the rows of partials (P, C), maybe a view of columns, added to into (C,) or, if None, in a new array."""
    width = partials.shape[1]
    if into is not None and not into.flags.c_contiguous:
        add_into((add_partials(gpu, partials),), (into,))
        return into
    total = gpu.empty((width,), partials.dtype) if into is None else into
    _launch(gpu, partials, 1, total, None, width, add=into is not None)
    return total


def add_both(gpu: DeviceRuntime, partials: Array, into: Into) -> tuple[Array, ...]:
    """Σ of the rows of partials (P, 2, C), two sums in one kernel: returned, or added to the two arrays in into.

    None is skipped. If into has only the second sum's array, the first sum is returned.
    """
    parts, _, width = partials.shape
    if len(into) == 2 and all(place is None or place.flags.c_contiguous for place in into):
        first, second = into
        if first is not None or second is not None:
            _launch(gpu, partials.reshape(parts, 2 * width), 1, first, second, width, add=True)
        return ()
    total = gpu.empty((2, width), partials.dtype)
    _launch(gpu, partials.reshape(parts, 2 * width), 1, total[0], total[1], width, add=False)
    return add_into((total[0], total[1]), into)


def _launch(
    gpu: DeviceRuntime, x: Array, parts: int, first: Array | None, second: Array | None, split: int, *, add: bool
) -> None:
    """Launch the kernel for x (N, W), whose rows may have gaps between them."""
    rows, width = x.shape
    apart = x.strides[0] // x.dtype.itemsize
    tiles = -(-width // COLUMNS)
    threads = COLUMNS * max(1, min(GROUPS, -(-rows // parts)))
    gpu.launch(
        "sums.add_rows", x.dtype, parts * tiles, threads, x, first, second, rows, apart, width, split, tiles, add
    )
