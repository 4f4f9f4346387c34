"""The roofline of a GPU: the rates of matrix products and of memory, measured when it is asked for.

No operation can take less time than its flops at the rate of products, or its bytes at the rate of memory.
The longer of the two times is its lower bound. The bound's share of the measured time shows how
much there is to gain (Williams, Waterman & Patterson 2009, "Roofline").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from npformer.backend.backend import Backend
from npformer.io.seconds import now, since

LARGE = 8192  # products of square matrices of this size reach the peak rate
STREAMED = 1 << 30  # bytes: well above the size of caches
ROUNDS = 20


class Roofline(NamedTuple):
    """The fastest measured rates."""

    flops: float  # per second, of matrix products
    bytes: float  # per second, the sum of read and written bytes


def measure_roofline(backend: Backend) -> Roofline:
    """Time a large product, and passes over many bytes.

    The product is the linear map, since CuPy's matmul has no TF32. It also adds a bias, which takes some hundredths.
    A copy and a change in place move 2·STREAMED bytes each.
    """
    rng, numbers = np.random.default_rng(0), STREAMED // np.dtype(backend.dtype).itemsize
    a, b = (backend.array(rng.random((LARGE, LARGE), dtype=np.float32)) for _ in range(2))
    bias, source, target = backend.zeros((LARGE,)), backend.zeros((numbers,)), backend.zeros((numbers,))
    source[...] = 1  # memory that was never written may be a single page, mapped many times

    def copy() -> None:
        target[...] = source

    def change() -> None:
        nonlocal target
        target *= 1

    product = _best(lambda: backend.ops.linear.forward(a, b, bias), backend)
    return Roofline(2.0 * LARGE**3 / product, 2.0 * STREAMED / min(_best(copy, backend), _best(change, backend)))


def _best(work: Callable[[], object], backend: Backend) -> float:
    """The seconds of the fastest of ROUNDS. The first round may set things up and does not count."""
    seconds = []
    for _ in range(1 + ROUNDS):
        start = now()
        work()
        backend.device.synchronize()
        seconds.append(since(start))
    return min(seconds[1:])
