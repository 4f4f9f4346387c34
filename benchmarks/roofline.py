"""The roofline of this machine: the rates of matrix products and of memory, measured when it is asked for.

No operation can take less time than its flops at the rate of products, or its bytes at the rate of memory.
The longer of the two times is its lower bound. The bound's share of the measured time shows how
much there is to gain (Williams, Waterman & Patterson 2009, "Roofline").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from npformer.backend.backend import Backend
from npformer.functional.arrays import namespace
from npformer.io.seconds import now, since

LARGE = {
    "numpy": 1024,
    "cupy": 8192,
}  # products of square matrices of this size reach the peak rate on most machines
STREAMED = {"numpy": 1 << 27, "cupy": 1 << 30}  # bytes: well above the size of caches
ENOUGH = 0.2  # seconds that each measurement may take, unless three rounds take longer
MOST_ROUNDS = 10_000  # a limit for a clock that stands still


class Roofline(NamedTuple):
    """The fastest measured rates."""

    flops: float  # per second, of matrix products
    bytes: float  # per second, the sum of read and written bytes


def measure_roofline(backend: Backend, streamed: int | None = None) -> Roofline:
    """Time a large product, and passes over streamed bytes, with the current number of threads."""
    flops = _product_rate(backend, LARGE[backend.name])
    return Roofline(flops, _memory_rate(backend, streamed or STREAMED[backend.name]))


def _product_rate(backend: Backend, n: int) -> float:
    """The rate of the product a b of two (n, n) in the backend's precision, by the faster of two ways.

    One way is the linear map. It also adds a bias, which takes some hundredths more, but it may use a faster library
    than the arrays' own matmul (see ``engine/numba/intel``). CuPy's matmul has no TF32, so a GPU uses the linear map.
    """
    rng = np.random.default_rng(0)
    a, b = (backend.array(rng.random((n, n), dtype=np.float32)) for _ in range(2))
    bias, matmul = backend.zeros((n,)), namespace(a).matmul
    seconds = _best(lambda: backend.ops.linear.forward(a, b, bias), backend)
    if backend.name != "cupy":
        seconds = min(seconds, _best(lambda: matmul(a, b), backend))
    return 2.0 * n**3 / seconds


def _memory_rate(backend: Backend, size: int) -> float:
    """The rate of memory, by the faster of a copy and a change in place; each moves 2·size bytes."""
    numbers = size // np.dtype(backend.dtype).itemsize
    source, target = backend.zeros((numbers,)), backend.zeros((numbers,))
    source[...] = 1  # memory that was never written may be a single page, mapped many times

    def copy() -> None:
        target[...] = source

    def change() -> None:
        nonlocal target
        target *= 1

    return 2.0 * size / min(_best(copy, backend), _best(change, backend))


def _best(work: Callable[[], object], backend: Backend) -> float:
    """The seconds of the fastest of several rounds. The first round may set things up and does not count."""
    work()
    backend.device.synchronize()
    best, rounds, began = float("inf"), 0, now()
    while rounds < 3 or (rounds < MOST_ROUNDS and since(began) < ENOUGH):
        start = now()
        work()
        backend.device.synchronize()
        best, rounds = min(best, since(start)), rounds + 1
    return best
