"""A backend: where arrays live, in which precision, and which kernels compute.

A backend is composed of parts, without inheritance: a table of operations, a device, a dtype, and perhaps an engine.
The engine makes steps and searches faster than they are written, by threads, records and compiled kernels. Without it
everything is computed as the layers say. ``npformer/engine`` has the engines; no reader of the mathematics needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from npformer.backend.ops import Ops
from npformer.backend.workspace import ALIGNMENT
from npformer.errors import ConfigError
from npformer.typing import Array, HostArray

PRECISIONS = ("float32", "tf32")  # of matrix products; see get_backend in select.py
#: A precision that there is not -> why, and what to take.
NO_PRECISIONS = {
    "bfloat16": "operands stay float32 in memory, where cuBLAS may take TF32 for it: bfloat16 in name alone; take tf32"
}
DTYPES = ("float32", "float64", "complex128")
Result = TypeVar("Result")


class Device(Protocol):
    """Where arrays live. ``NumpyDevice`` and ``CupyDevice`` implement it; another device needs only these methods."""

    name: str

    def array(self, host: HostArray, dtype: str) -> Array:
        """A copy of host on this device, as dtype."""

    def host(self, x: Array) -> HostArray:
        """x as a NumPy array on the host (waits for the device)."""

    def owns(self, x: Any) -> bool:
        """Whether x is an array of this device already."""

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Zeros, starting on a 64-byte boundary."""

    def synchronize(self) -> None:
        """Wait until all work of this device is done."""


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
        memory = np.zeros(size + ALIGNMENT, dtype=np.uint8)  # NumPy itself aligns to 16 bytes
        start = -memory.ctypes.data % ALIGNMENT
        return memory[start : start + size].view(kind).reshape(shape)

    def synchronize(self) -> None:
        """Nothing to wait for: NumPy returns when it is done."""


def expect_precision(name: str) -> str:
    """The name of a precision of products. Raises ConfigError for another."""
    if name not in PRECISIONS:
        why = f"; {NO_PRECISIONS[name]}" if name in NO_PRECISIONS else ""
        raise ConfigError(f"precision: expected one of {', '.join(PRECISIONS)}, got {name!r}{why}")
    return name


@dataclass(frozen=True)
class Backend:
    """See the module's docstring. Build one with ``get_backend`` (``select.py``).

    ``kernels`` names the table of operations; ``print(backend.ops)`` says where each pair comes from. ``precision`` is
    the precision of float32 matrix products. ``own_ops`` are the operations the backend was built with. If a user
    replaces one, fused kernels and recordings, which would bypass the replacement, are not used.
    """

    name: str
    ops: Ops
    device: Device
    dtype: str = "float32"
    precision: str = "float32"
    kernels: str = "plain"
    engine: Any = None  # a FastEngine (``engine/engine.py``), if there is one
    own_ops: Ops | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype: expected one of {', '.join(DTYPES)}, got {self.dtype!r}")
        expect_precision(self.precision)
        if self.precision != "float32" and self.dtype != "float32":
            raise ConfigError(
                f"precision: expected float32 for arrays of {self.dtype}, got {self.precision}: it applies to float32 "
                "products only; leave it out, or use dtype float32"
            )

    @property
    def has_own_ops(self) -> bool:
        """Whether the backend computes with the operations it was built with: no user has replaced one."""
        return self.own_ops is None or self.ops is self.own_ops

    def __copy__(self) -> Backend:
        return self

    def __deepcopy__(self, memo: Any) -> Backend:
        """The backend itself: a copied model computes on the same backend."""
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a backend, and so a model, cannot be pickled: it holds functions and threads of this process; "
            "keep models with npf.save(model, path), and read them where they are needed with npf.load(path)"
        )

    def array(self, host: HostArray | Sequence[Any] | float) -> Array:
        """Host numbers as an array of this backend's dtype on its device."""
        return self.device.array(np.asarray(host), self.dtype)

    def integers(self, host: HostArray) -> Array:
        """Host integers as int64 on the device."""
        return self.device.array(host, "int64")

    def on_device(self, x: HostArray | Array) -> Array:
        """x itself if it is on the device already, else a copy there with the same dtype."""
        return x if self.device.owns(x) else self.device.array(x, x.dtype.name)

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros of this backend's dtype on its device."""
        return self.device.zeros(shape, self.dtype)

    @property
    def threads(self) -> int:
        """How many threads may share a training batch."""
        return 1 if self.engine is None else self.engine.threads

    def host(self, x: Array) -> HostArray:
        """x as a NumPy array."""
        return self.device.host(x)

    def with_room(self, work: Callable[..., Result], *inputs: Any, **options: Any) -> Result:
        """work(*inputs, **options), which changes nothing.

        It is called again if a GPU's memory was full of what may go. Raises DeviceMemoryError if that is not enough.
        """
        if self.engine is None:
            return work(*inputs, **options)
        return self.engine.with_room(partial(work, *inputs, **options))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<Backend {self}>"

    def __str__(self) -> str:
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.name} ({self.kernels}) on {self.device.name}, {self.dtype}{self._products()}{threads}"

    def _products(self) -> str:
        """The precision of products, where there is a choice."""
        return f", products in {self.precision}" if self.name == "cupy" and self.dtype == "float32" else ""
