"""Operands of products in bfloat16: a kernel rounds each once, where that saves more time than it takes.

A kernel that rounds n numbers reads 4n bytes and writes 2n, after about 2 µs of launch; it saves half the
time of a product. So only products with an operand of at least ROUND_FROM numbers use
bfloat16. The others are left to cuBLAS as tf32: three bits more, and no kernel.
The numbers are stored as uint16, since neither NumPy nor CuPy has a dtype for bfloat16.
"""

from __future__ import annotations

import math

from npformer.engine.cuda.device_runtime import DeviceRuntime, warps
from npformer.typing import Array

#: An operand of at least this many numbers is rounded, and so is the other. Derived from a GPU's rates, not measured.
ROUND_FROM = 1 << 20
#: The count of numbers that one block rounds.
AT_ONCE = 4096


def is_rounded(gpu: DeviceRuntime, size: int, dtype: object) -> bool:
    """Whether an operand of this size and dtype is rounded to bfloat16."""
    return gpu.precision == "bfloat16" and dtype == "float32" and size >= ROUND_FROM


def rounded_together(gpu: DeviceRuntime, *arrays: Array) -> tuple[Array, ...]:
    """The operands of one product: all of them rounded to bfloat16, or all unchanged."""
    if any(x.dtype == "uint16" or is_rounded(gpu, x.size, x.dtype) for x in arrays):
        return tuple(x if x.dtype == "uint16" else rounded(gpu, x) for x in arrays)
    return arrays


def rounded(gpu: DeviceRuntime, x: Array) -> Array:
    """x (..., M, N) in bfloat16, as a new uint16 array, which is transposed in memory if x is."""
    unit = x.dtype.itemsize
    if x.ndim > 1 and x.strides[-1] != unit and x.strides[-2] == unit:
        return rounded(gpu, x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if x.ndim < 2 or x.ndim > 4 or x.strides[-1] != unit:
        x = gpu.contiguous(x)
    out = gpu.empty(x.shape, "uint16")
    if x.flags.c_contiguous:
        shape, apart = (1, 1, -(-x.size // AT_ONCE), AT_ONCE), (0, 0, AT_ONCE)
    else:
        shape = (1, 1, *x.shape)[-4:]
        apart = (0, 0, *(stride // unit for stride in x.strides[:-1]))[-3:]
    n0, n1, rows, width = shape
    at_once = max(1, AT_ONCE // max(width, 1))
    blocks = n0 * n1 * -(-rows // at_once)
    threads = warps(min(math.prod(shape[2:]), 256))
    gpu.launch("bfloat16.round_rows", x.dtype, blocks, threads, x, out, x.size, n1, rows, width, *apart, at_once)
    return out
