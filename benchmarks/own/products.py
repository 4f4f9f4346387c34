"""The matrix products of a training step alone: the fastest that this machine's libraries do them.

Each linear map's three products (y = x W, dx = dy Wᵀ, dW = xᵀ dy) run in their own shapes, into memory that
is there already, over and over: the most favourable circumstances. With the threads of NumPy's BLAS, and with
the rows dealt out to threads of Python, each with a product of one thread, by NumPy's library and by Intel's where
kernels use that; the fastest way counts, for each.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.machine import cores
from benchmarks.products import Linear, linears
from benchmarks.tasks import Contender, Task
from npformer.models.presets import PRESETS

Matrix = npt.NDArray[np.float32]
Multiply = Callable[[Matrix, Matrix, Matrix], None]
BY_ROWS, AS_IT_IS, TURNED = 101, 111, 112  # CBLAS's numbers for them
FLOP_PER_TURN = 4e8  # of one thread: short products are repeated, so that the clock does not count


def products(size: str, split: bool, library: str = "numpy") -> Contender:
    """The contender; split: rows over threads of Python. Its value is the seconds of each product, as in ``names``.

    library is "numpy" for NumPy's own, "intel" for the one that kernels use on Intel's processors.
    """
    parts = cores() if split else 1
    multiply: Multiply = _by_intel() if library == "intel" else lambda a, b, out: np.matmul(a, b, out=out)

    def make() -> Task:
        work = [part for linear in linears(PRESETS[size]) for part in _three(linear, parts, multiply)]
        return lambda: [run() for run in work]

    way = f"{parts} of Python, 1 in BLAS" if split else f"up to {cores()} in BLAS"
    return Contender({"backend": "MKL" if library == "intel" else "numpy.matmul", "threads": way}, {"products": make})


def _by_intel() -> Multiply:
    """A product by MKL, on one thread, of matrices that lie in memory row by row or column by column."""
    from npformer.backend.numba.intel import intel_product

    gemm: Callable[..., None] | None = intel_product("s")
    if gemm is None:
        raise RuntimeError("products: expected Intel's library, which is not in use here; npformer doctor says why")

    def multiply(a: Matrix, b: Matrix, out: Matrix) -> None:
        (m, k), n = a.shape, b.shape[1]
        turns, lines = zip(*((AS_IT_IS, x.shape[1]) if x.flags.c_contiguous else (TURNED, x.shape[0]) for x in (a, b)),
                           strict=True)  # fmt: skip
        whole, number, where = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
        gemm(
            BY_ROWS, *turns, whole(m), whole(n), whole(k), number(1), where(a.ctypes.data), whole(lines[0]),
            where(b.ctypes.data), whole(lines[1]), number(0), where(out.ctypes.data), whole(n),
        )  # fmt: skip

    return multiply


def _three(linear: Linear, parts: int, multiply: Multiply) -> list[Callable[[], float]]:
    """The three products of a linear map, each as a function that returns the seconds that one takes."""
    rows = [linear.rows // parts + (i < linear.rows % parts) for i in range(parts)]
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Matrix:
        return rng.standard_normal(shape, dtype=np.float32)

    x = [random(n, linear.c_in) for n in rows]
    dy = [random(n, linear.c_out) for n in rows]
    weight = random(linear.c_in, linear.c_out)
    y, dx = [np.empty_like(each) for each in dy], [np.empty_like(each) for each in x]
    dweight = [np.empty_like(weight) for _ in rows]
    repeats = max(1, round(FLOP_PER_TURN * parts / linear.flop))
    thirds = (
        [(x[i], weight, y[i]) for i in range(parts)],
        [(dy[i], weight.T, dx[i]) for i in range(parts)],
        [(x[i].T, dy[i], dweight[i]) for i in range(parts)],
    )
    return [_timed(operands, repeats, multiply) for operands in thirds]


def _timed(operands: list[tuple[Matrix, Matrix, Matrix]], repeats: int, multiply: Multiply) -> Callable[[], float]:
    def repeat(a: Matrix, b: Matrix, out: Matrix) -> None:
        for _ in range(repeats):
            multiply(a, b, out)

    def run() -> float:
        others = [threading.Thread(target=repeat, args=each) for each in operands[1:]]
        start = time.perf_counter()
        for thread in others:
            thread.start()
        repeat(*operands[0])
        for thread in others:
            thread.join()
        return (time.perf_counter() - start) / repeats

    return run
