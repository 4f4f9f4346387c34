"""Operands of products in bfloat16: rounded by a kernel, once, where that saves more than it costs.

A kernel that rounds n numbers reads 4n bytes and writes 2n, after about 2 µs; what it saves is half the
time of a product. So only products of which an operand has ROUND_FROM numbers or more are made of
bfloat16 numbers. The others are left to cuBLAS as tf32: three bits more, and no kernel.
The numbers are held as uint16: neither NumPy nor CuPy has a dtype for them.
"""

from __future__ import annotations

import math

from npformer.backend.cuda.device_runtime import DeviceRuntime, warps
from npformer.typing import Array

#: Operands of so many numbers are rounded, and what meets them. Reasoned from a GPU's rates, not measured.
ROUND_FROM = 1 << 20
#: Numbers that one block rounds.
AT_ONCE = 4096


def is_rounded(gpu: DeviceRuntime, size: int, dtype: object) -> bool:
    """Whether an operand of so many numbers of dtype is rounded to bfloat16."""
    return gpu.precision == "bfloat16" and dtype == "float32" and size >= ROUND_FROM


def rounded_together(gpu: DeviceRuntime, *arrays: Array) -> tuple[Array, ...]:
    """The operands of one product as it takes them: all of them in bfloat16, or as they are."""
    if any(x.dtype == "uint16" or is_rounded(gpu, x.size, x.dtype) for x in arrays):
        return tuple(x if x.dtype == "uint16" else rounded(gpu, x) for x in arrays)
    return arrays


def rounded(gpu: DeviceRuntime, x: Array) -> Array:
    """x (..., M, N) in bfloat16, as uint16 in a new array, which is turned where x is."""
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
