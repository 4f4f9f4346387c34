"""What this machine can do at best: how fast a matrix product, how fast memory, measured now.

No operation can be faster than its flops at the product's rate, nor than its bytes at memory's, so
the longer of the two times is what it could take, and its share of the time it does take says how
much there is to gain (Williams, Waterman & Patterson 2009, "Roofline").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from npformer.backend.backend import Backend
from npformer.functional.arrays import namespace
from npformer.seconds import now, since

LARGE = {
    "numpy": 1024,
    "cupy": 8192,
}  # a product of square matrices of this size is as fast as they get on most machines
STREAMED = {"numpy": 1 << 27, "cupy": 1 << 30}  # bytes: well above what caches hold
ENOUGH = 0.2  # seconds that each measurement may take, unless three rounds take longer
MOST_ROUNDS = 10_000  # a clock that stands still would never say that it is enough

Shape = tuple[int, int, int]  # (M, K, N) of a product (M, K)·(K, N)


class Roofline(NamedTuple):
    """The fastest rates that were seen."""

    flops: float  # per second, of matrix products
    bytes: float  # per second, read and written ones together
    shape: Shape  # of the fastest product

    def bound(self, flops: float, moved: float) -> tuple[float, str]:
        """Seconds that so many flops and bytes take at least, and what bounds them: "products" or "memory"."""
        products, memory = flops / self.flops, moved / self.bytes
        return (products, "products") if products > memory else (memory, "memory")


def measure_roofline(backend: Backend, shapes: Sequence[Shape] = (), streamed: int | None = None) -> Roofline:
    """Time a large product, those of shapes, and passes over so many bytes, with as many threads as there are now."""
    large = LARGE[backend.name]
    rates = {shape: _product_rate(backend, shape) for shape in ((large, large, large), *shapes)}
    fastest = max(rates, key=lambda shape: rates[shape])
    return Roofline(rates[fastest], _memory_rate(backend, streamed or STREAMED[backend.name]), fastest)


def _product_rate(backend: Backend, shape: Shape) -> float:
    """Of the product a b in the backend's precision, the faster of two ways.

    A linear map's adds a bias, which takes some hundredths more, but its library may be another than that of the
    arrays (see ``backend/numba/intel``); and CuPy's own knows no TF32, so on a GPU it is the only way.
    """
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = backend.array(rng.random((m, k), dtype=np.float32)), backend.array(rng.random((k, n), dtype=np.float32))
    bias, matmul = backend.zeros((n,)), namespace(a).matmul
    seconds = _best(lambda: backend.ops.linear.forward(a, b, bias), backend)
    if backend.name != "cupy":
        seconds = min(seconds, _best(lambda: matmul(a, b), backend))
    return 2.0 * m * k * n / seconds


def _memory_rate(backend: Backend, size: int) -> float:
    """The faster of a copy and a change in place, which reads nothing but what it writes; each moves 2·size bytes."""
    numbers = size // np.dtype(backend.dtype).itemsize
    source, target = backend.zeros((numbers,)), backend.zeros((numbers,))
    source[...] = 1  # memory that was never written may be one page, seen many times

    def copy() -> None:
        target[...] = source

    def change() -> None:
        nonlocal target
        target *= 1

    return 2.0 * size / min(_best(copy, backend), _best(change, backend))


def _best(work: Callable[[], object], backend: Backend) -> float:
    """Seconds of the fastest of several rounds; the first, which may set things up, does not count."""
    work()
    backend.device.synchronize()
    best, rounds, began = float("inf"), 0, now()
    while rounds < 3 or (rounds < MOST_ROUNDS and since(began) < ENOUGH):
        start = now()
        work()
        backend.device.synchronize()
        best, rounds = min(best, since(start)), rounds + 1
    return best
