"""A backend: where arrays live, in which precision, and which bodies compute.

It is composed of parts, not inherited from: a table of operations, a device, a dtype, and
``capture``, which may turn a function of device arrays into something cheaper to call again (a
CUDA graph); on NumPy it is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from npformer.backend.device import Device
from npformer.backend.ops import Ops
from npformer.errors import ConfigError, DeviceError
from npformer.typing import Array, HostArray

Function = TypeVar("Function", bound=Callable[..., Any])

DTYPES = ("float32", "float64", "complex128")


def run_eagerly(function: Function) -> Function:
    """The capture that captures nothing."""
    return function


@dataclass(frozen=True)
class Backend:
    """See the module's docstring. Build one with ``get_backend``."""

    name: str
    ops: Ops
    device: Device
    dtype: str = "float32"
    capture: Callable[[Function], Function] = run_eagerly

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype: expected one of {', '.join(DTYPES)}, got {self.dtype!r}")

    def array(self, host: HostArray | Sequence[Any] | float) -> Array:
        """Host numbers as an array of this backend's dtype on its device."""
        return self.device.array(np.asarray(host), self.dtype)

    def integers(self, host: HostArray) -> Array:
        """Host integers as int64 on the device."""
        return self.device.array(host, "int64")

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros of this backend's dtype on its device."""
        return self.device.zeros(shape, self.dtype)

    def host(self, x: Array) -> HostArray:
        """x as a NumPy array."""
        return self.device.host(x)

    def __str__(self) -> str:
        return f"{self.name} on {self.device.name}, {self.dtype}"


def get_backend(name: str = "auto", dtype: str = "float32") -> Backend:
    """The backend called name: "numpy", "cupy", or "auto", which is cupy if a GPU answers, else numpy.

    dtype is "float32", "float64", or "complex128" (for checks). Raises DeviceError if cupy is asked
    for and cannot run, saying what is missing; ConfigError for another name or dtype.
    """
    from npformer.backend.numpy import numpy_backend  # here, since both are built on this module

    if name == "numpy":
        return numpy_backend(dtype)
    if name not in ("auto", "cupy"):
        raise ConfigError(f"backend: expected auto, numpy or cupy, got {name!r}")
    from npformer.backend.cupy import cupy_backend, cupy_problem

    problem = cupy_problem()
    if problem is None:
        return cupy_backend(dtype)
    if name == "auto":
        return numpy_backend(dtype)
    raise DeviceError(f"cupy: {problem}; or use --device numpy (in Python: get_backend('numpy'))")
