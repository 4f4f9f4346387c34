"""NumPy: arrays on the host, and two tables of kernels: plain and numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npformer.backend import workspace
from npformer.backend.backend import Backend
from npformer.backend.fallback import with_fallback, with_one_precision
from npformer.backend.numpy.philox import philox_bits
from npformer.backend.ops import PLAIN, Ops, with_bits
from npformer.typing import Array, HostArray

#: Kernels "plain": exactly the code of ``functional``, so checking them checks every line of it.
TEXT = with_one_precision(PLAIN)

#: The same, with random bits from NumPy's Philox.
OPS: Ops = with_bits(PLAIN, philox_bits)

#: The fallback of the fast kernels, mostly for complex numbers: a gradient check calls it thousands of times.
CAREFUL = with_one_precision(OPS)


class NumpyDevice:
    """The host itself."""

    name = "CPU"

    def array(self, host: HostArray, dtype: str) -> Array:
        return np.array(host, dtype=dtype)

    def host(self, x: Array) -> HostArray:
        return np.asarray(x)

    def owns(self, x: Any) -> bool:
        return isinstance(x, np.ndarray)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        memory = np.zeros(size + workspace.ALIGNMENT, dtype=np.uint8)  # NumPy itself aligns to 16 bytes
        start = -memory.ctypes.data % workspace.ALIGNMENT
        return memory[start : start + size].view(kind).reshape(shape)

    def synchronize(self) -> None:
        """Nothing to wait for: NumPy returns when it is done."""


def numpy_backend(dtype: str, kernels: str) -> Backend:
    """The NumPy backend in dtype, with kernels "plain" or "numpy"."""
    ops = TEXT
    if kernels == "numpy":
        from npformer.backend.numpy.kernels import KERNELS

        ops = with_fallback(KERNELS, CAREFUL)
    return Backend("numpy", ops, NumpyDevice(), dtype, kernels=kernels, own_ops=ops)
