"""The matrix products of a training step alone: the fastest that this machine's BLAS does them.

Each linear map's three products (y = x W, dx = dy Wᵀ, dW = xᵀ dy) run in their own shapes, into memory that
is there already, over and over: the most favourable circumstances. Twice: with the threads of BLAS, and with
the rows dealt out to threads of Python, each with a BLAS of one thread; the faster way counts, for each.
"""

from __future__ import annotations

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
FLOP_PER_TURN = 4e8  # of one thread: short products are repeated, so that the clock does not count


def products(size: str, split: bool) -> Contender:
    """The contender; split: rows over threads of Python. Its value is the seconds of each product, as in ``names``."""
    parts = cores() if split else 1

    def make() -> Task:
        work = [part for linear in linears(PRESETS[size]) for part in _three(linear, parts)]
        return lambda: [run() for run in work]

    way = f"{parts} of Python, 1 in BLAS" if split else f"up to {cores()} in BLAS"
    return Contender({"backend": "numpy.matmul", "threads": way}, {"products": make})


def _three(linear: Linear, parts: int) -> list[Callable[[], float]]:
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
    return [_timed(operands, repeats) for operands in thirds]


def _timed(operands: list[tuple[Matrix, Matrix, Matrix]], repeats: int) -> Callable[[], float]:
    def multiply(a: Matrix, b: Matrix, out: Matrix) -> None:
        for _ in range(repeats):
            np.matmul(a, b, out=out)

    def run() -> float:
        others = [threading.Thread(target=multiply, args=each) for each in operands[1:]]
        start = time.perf_counter()
        for thread in others:
            thread.start()
        multiply(*operands[0])
        for thread in others:
            thread.join()
        return (time.perf_counter() - start) / repeats

    return run
