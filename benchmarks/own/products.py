"""The matrix products of a training step alone, as fast as this machine's libraries compute them.

Each linear map's three products (y = x W, dx = dy Wᵀ, dW = xᵀ dy) run repeatedly in their own shapes, into allocated
memory: the best case. They run with the threads of NumPy's BLAS, and with the rows split over Python threads with
one-thread products, by NumPy's library and, where kernels use it, by Intel's. The fastest way counts for each product.
"""

import ctypes
import threading
import time

import numpy as np

from benchmarks.machine import cores
from benchmarks.products import linears
from benchmarks.tasks import Contender
from npformer.models.presets import PRESETS

BY_ROWS, AS_IT_IS, TURNED = 101, 111, 112  # CBLAS constants
FLOP_PER_TURN = 4e8  # in one thread; short products are repeated, so that the clock's cost is negligible


def products(size, split, library="numpy"):
    """The contender; split: rows over Python threads. Its value is the seconds of each product, as in ``names``.

    library is "numpy" for NumPy's BLAS, "intel" for the library that kernels use on Intel processors.
    """
    parts = cores() if split else 1
    multiply = _by_intel() if library == "intel" else lambda a, b, out: np.matmul(a, b, out=out)

    def make():
        work = [part for linear in linears(PRESETS[size]) for part in _three(linear, parts, multiply)]
        return lambda: [run() for run in work]

    way = f"{parts} of Python, 1 in BLAS" if split else f"up to {cores()} in BLAS"
    return Contender({"backend": "MKL" if library == "intel" else "numpy.matmul", "threads": way}, {"products": make})


def _by_intel():
    """A product by MKL, on one thread, of row-major or column-major matrices."""
    from npformer.engine.numba.intel import intel_product

    gemm = intel_product("s")
    if gemm is None:
        raise RuntimeError("products: expected Intel's library, which is not in use here; npformer doctor says why")

    def multiply(a, b, out):
        (m, k), n = a.shape, b.shape[1]
        turns, lines = zip(
            *((AS_IT_IS, x.shape[1]) if x.flags.c_contiguous else (TURNED, x.shape[0]) for x in (a, b)), strict=True
        )
        whole, number, where = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
        gemm(
            BY_ROWS, *turns, whole(m), whole(n), whole(k), number(1), where(a.ctypes.data), whole(lines[0]),
            where(b.ctypes.data), whole(lines[1]), number(0), where(out.ctypes.data), whole(n),
        )  # fmt: skip

    return multiply


def _three(linear, parts, multiply):
    """The three products of a linear map, each as a function that returns the seconds of one product."""
    rows = [linear.rows // parts + (i < linear.rows % parts) for i in range(parts)]
    rng = np.random.default_rng(0)

    def random(*shape):
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


def _timed(operands, repeats, multiply):
    def repeat(a, b, out):
        for _ in range(repeats):
            multiply(a, b, out)

    def run():
        others = [threading.Thread(target=repeat, args=operand) for operand in operands[1:]]
        start = time.perf_counter()
        for thread in others:
            thread.start()
        repeat(*operands[0])
        for thread in others:
            thread.join()
        return (time.perf_counter() - start) / repeats

    return run
