"""What the kernels for GPUs need of a GPU: memory, kernels, matrix products. Nothing else is asked of it.

``backend/cupy`` has the real one. The tests have another, whose memory is the host's and whose kernels
are the same sources, compiled as C++: so all that stands here and in the kernels runs without a GPU.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from npformer.functional.dropout import dropout_threshold
from npformer.functional.philox import Draw, first_number
from npformer.typing import Array

#: What products of float32 numbers are made of: those numbers, or they rounded to 10 bits, or, where that pays
#: (bfloat16.py), to 7. Sums are always float32, and float64 numbers are never rounded.
PRECISIONS = ("float32", "tf32", "bfloat16")


class DeviceRuntime(Protocol):
    """A GPU, or what stands for one. Everything is asked for in order, and nobody waits for it."""

    precision: str  # of the products of float32 numbers, one of PRECISIONS

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised, row-major array."""

    def contiguous(self, x: Array) -> Array:
        """x, or a row-major copy of it."""

    def launch(self, kernel: str, dtype: Any, blocks: int, threads: int, *arguments: Any) -> None:
        """Run ``FILE.KERNEL`` of the .cu files, built for real numbers of dtype, in so many blocks of threads.

        Arrays become pointers to their first element, None a null pointer, Python's integers (and
        booleans) 64-bit integers, its floats doubles. ``threads`` is a suggestion: a kernel is right
        for every number of threads in a block.
        """

    def product(self, a: Array, b: Array, out: Array, *, add: bool = False, scale: float = 1.0) -> Array:
        """out (…, M, N) = scale · a (…, M, K) b (…, K, N), added to what is there if ``add``. Returns out.

        The last two axes of a, b and out may be turned or lie apart (views), one of the two having
        neighbours; no operand is copied to be turned. a and b may be in bfloat16 (uint16), both.
        """


class Drawn(NamedTuple):
    """What a kernel is told of a draw: the parameters DRAW of ``philox.cuh``, in their order."""

    seed: int
    site: int
    step_at: Array | None  # where the step lives in the GPU's memory; None: it is the next number
    step: int
    micro: int
    start: int  # which number of the draw belongs to the array's first element
    threshold: int  # numbers below it drop; 0: nothing is dropped
    scale: float


NOTHING_DROPPED = Drawn(0, 0, None, 0, 0, 0, 0, 1.0)


def drawn(draw: Draw | None, like: Array) -> Drawn:
    """The draw for ``like`` (B, …) as kernels want it. Raises ConfigError for a rate outside [0, 1)."""
    if draw is None:
        return NOTHING_DROPPED
    threshold, scale = dropout_threshold(draw.rate)
    on_gpu = not isinstance(draw.step, (int, np.integer))
    start = first_number(draw, math.prod(like.shape), like)
    return Drawn(
        signed(draw.seed), signed(draw.site), draw.step if on_gpu else None, 0 if on_gpu else signed(draw.step),
        signed(draw.micro), start, threshold, scale,
    )  # fmt: skip


def signed(word: Any) -> int:
    """The signed number with the same 64 bits."""
    number = int(word)
    return number - 2**64 if number >= 2**63 else number


def warps(width: int, most: int = 1024) -> int:
    """Threads for a row of so many numbers: whole warps of 32, at most ``most``."""
    return max(32, min(most, -(-width // 32) * 32))


def whole_blocks(size: int, threads: int = 256) -> int:
    """Blocks of so many threads that give each of size numbers a thread."""
    return max(1, -(-size // threads))
