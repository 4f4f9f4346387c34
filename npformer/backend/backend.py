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
BODIES = ("auto", "plain", "numpy", "compiled")

#: (p, g, m, v, lr, betas, eps, t, decay): one update of flat arrays, in place, as in ``optim/adam.py``.
AdamUpdate = Callable[[Array, Array, Array, Array, float, tuple[float, float], float, int, float], None]
#: ``DecoderLayer.step`` in one call, from its inputs, its parameters and what it remembers; None: not this case.
DecoderLayerStep = Callable[..., Array | None]
Jobs = Sequence[Callable[[], Any]]


def run_eagerly(function: Function) -> Function:
    """The capture that captures nothing."""
    return function


def one_after_the_other(jobs: Jobs) -> None:
    """Doing jobs together where there is one thread."""
    for job in jobs:
        job()


@dataclass(frozen=True)
class Backend:
    """See the module's docstring. Build one with ``get_backend``.

    ``bodies`` names the table of operations. ``threads`` is into how many parts a training batch is
    shared out, and ``together(jobs)`` does that many jobs at the same time. ``adam_update`` is a
    faster spelling of Adam's formula, or None, and ``decoder_layer_step`` of a decoder layer's step.
    """

    name: str
    ops: Ops
    device: Device
    dtype: str = "float32"
    capture: Callable[[Function], Function] = run_eagerly
    bodies: str = "plain"
    threads: int = 1
    together: Callable[[Jobs], None] = one_after_the_other
    adam_update: AdamUpdate | None = None
    decoder_layer_step: DecoderLayerStep | None = None

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
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.name} ({self.bodies}) on {self.device.name}, {self.dtype}{threads}"


def get_backend(
    name: str = "auto", dtype: str = "float32", *, bodies: str = "auto", threads: int | None = None
) -> Backend:
    """The backend called name: "numpy", "cupy", or "auto", which is cupy if a GPU answers, else numpy.

    dtype is "float32", "float64", or "complex128" (for checks). bodies says, for NumPy, what computes:
    "plain" (the text of ``functional``), "numpy" (faster, NumPy alone), "compiled" (faster still, the
    extra ``fast``), or "auto", the fastest that is installed; complex numbers are always plain.
    threads share a training batch: None is one for each core. Raises DeviceError if cupy or compiled
    bodies are asked for and cannot run, saying what is missing; ConfigError for another name, dtype,
    or number.
    """
    if bodies not in BODIES:
        raise ConfigError(f"bodies: expected one of {', '.join(BODIES)}, got {bodies!r}")
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected an integer >= 1, or None for one for each core, got {threads}")
    from npformer.backend.numpy import numpy_backend  # here, since both are built on this module

    if name == "numpy":
        return numpy_backend(dtype, bodies, threads)
    if name not in ("auto", "cupy"):
        raise ConfigError(f"backend: expected auto, numpy or cupy, got {name!r}")
    from npformer.backend.cupy import cupy_backend, cupy_problem

    problem = cupy_problem()
    if problem is None:
        return cupy_backend(dtype)
    if name == "auto":
        return numpy_backend(dtype, bodies, threads)
    raise DeviceError(f"cupy: {problem}; or use --device numpy (in Python: get_backend('numpy'))")
