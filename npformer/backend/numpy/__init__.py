"""NumPy: arrays on the host, the plain pairs with two faster bodies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npformer import functional as F  # noqa: N812
from npformer.backend.backend import Backend
from npformer.backend.numpy.embedding import embedding_backward
from npformer.backend.numpy.philox import philox_bits
from npformer.backend.ops import PLAIN, Ops, plain_pair, with_bits
from npformer.typing import Array, HostArray

ALIGNMENT = 64  # bytes

OPS: Ops = replace(with_bits(PLAIN, philox_bits), embedding=plain_pair(F.embedding_forward, embedding_backward))


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
        size = int(np.prod(shape)) * kind.itemsize
        memory = np.zeros(size + ALIGNMENT, dtype=np.uint8)  # NumPy itself promises 16 bytes
        start = -memory.ctypes.data % ALIGNMENT
        return memory[start : start + size].view(kind).reshape(shape)

    def synchronize(self) -> None:
        """Nothing to wait for: NumPy returns when it is done."""


def numpy_backend(dtype: str) -> Backend:
    """The NumPy backend in dtype."""
    return Backend(name="numpy", ops=OPS, device=NumpyDevice(), dtype=dtype)
