"""The device runtime: all that the CUDA kernels need from a GPU, which is memory, launches and matrix products.

``backend/cupy`` implements it on a real GPU. The tests implement it on the host: arrays in host memory, and the
same kernel sources compiled as C++. So all code here and in the kernels can run without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from npformer.functional.dropout import dropout_threshold
from npformer.functional.philox import Draw, first_number, signed
from npformer.typing import Array, HostArray


class DeviceRuntime(Protocol):
    """A GPU or a substitute for one. All work is asynchronous, in the order of the calls."""

    #: Of the operands of float32 products, one of ``backend.PRECISIONS``: unrounded, or cuBLAS may round them to 10
    #: bits. Sums are always float32, and float64 numbers are never rounded.
    precision: str
    #: What a pass of forward and backward puts off (``sums.Later``); None: nothing, outside of one.
    later: Any

    def address(self, x: Array) -> int:
        """The address of x's first number."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised, row-major array."""

    def contiguous(self, x: Array) -> Array:
        """x, or a row-major copy of it."""

    def launch(self, kernel: str, dtype: Any, blocks: int, threads: int, *arguments: Any) -> None:
        """Run ``FILE.KERNEL`` of the .cu files, compiled for real numbers of dtype, as blocks × threads.

        Arrays become pointers to their first element, None a null pointer, Python integers (and
        booleans) 64-bit integers, Python floats doubles, and what ``by_value`` makes a struct. ``threads`` is a
        suggestion: a kernel gives correct results for every number of threads in a block.
        """

    def lists(self, *arrays: Array) -> Any:
        """For several products of these (B, H, ·, ·): the lists of addresses that they need, by one kernel."""

    def product(
        self, a: Array, b: Array, out: Array, *, add: bool = False, scale: float = 1.0, lists: Any = None
    ) -> Array:
        """out (…, M, N) = scale · a (…, M, K) b (…, K, N), added to out if ``add``. Returns out.

        a, b and out may be views whose last two axes are transposed or have gaps, as long as one of the two
        axes is contiguous; no operand is copied to transpose it.
        """

    def biased_product(self, a: Array, b: Array, bias: Array, out: Array) -> bool:
        """out = a (M, K) b (K, N) + bias (N,), by one kernel. False if there is none for these: nothing was done."""


class Drawn(NamedTuple):
    """A draw as kernel arguments: the parameters DRAW of ``philox.cuh``, in their order."""

    seed: int
    site: int
    step_at: Array | None  # the step in GPU memory; None: the next field holds it
    step: int
    micro: int
    start: int  # index in the draw of the array's first element
    threshold: int  # an element whose bits are below it is dropped; 0: nothing is dropped
    scale: float


NOTHING_DROPPED = Drawn(0, 0, None, 0, 0, 0, 0, 1.0)


def drawn(draw: Draw | None, like: Array) -> Drawn:
    """The draw for ``like`` (B, …) as kernel arguments. Raises ConfigError for a rate outside [0, 1)."""
    if draw is None:
        return NOTHING_DROPPED
    threshold, scale = dropout_threshold(draw.rate)
    on_gpu = not isinstance(draw.step, (int, np.integer))
    start = first_number(draw, math.prod(like.shape), like)
    return Drawn(
        signed(draw.seed), signed(draw.site), draw.step if on_gpu else None, 0 if on_gpu else signed(draw.step),
        signed(draw.micro), start, threshold, scale,
    )  # fmt: skip


def by_value(numbers: Sequence[int], size: int) -> HostArray:
    """A kernel argument that is a struct of ``size`` 64-bit integers, the first of which are these."""
    struct = np.zeros((), [("numbers", np.int64, (size,))])
    struct["numbers"][: len(numbers)] = numbers
    return struct


def warps(width: int, most: int = 1024) -> int:
    """The threads for a row of this width: whole warps of 32, at most ``most``."""
    return max(32, min(most, -(-width // 32) * 32))


def whole_blocks(size: int, threads: int = 256) -> int:
    """The number of blocks of this many threads that gives each of size numbers a thread."""
    return max(1, -(-size // threads))
