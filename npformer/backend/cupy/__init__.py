"""CuPy: arrays on an NVIDIA GPU, and two tables of kernels: plain and CUDA (``backend/cuda``).

CuPy is imported when a backend is built, never before: importing npformer does not need it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npformer.backend.backend import Backend
from npformer.backend.fallback import with_fallback, with_one_precision
from npformer.backend.ops import PLAIN
from npformer.errors import ConfigError
from npformer.extras import install
from npformer.typing import Array, HostArray


def cupy_problem() -> str | None:
    """Why CuPy cannot run here, in words, or None if a GPU answers.

    A successful ``import cupy`` proves nothing, since it also succeeds without a driver. So a number is
    computed on the device and read back.
    """
    try:
        import cupy
    except ImportError as error:
        if (error.name or "").split(".")[0] == "cupy":
            return f"CuPy is not installed; {install('cuda12')}, or the extra cuda13 if your driver is for CUDA 13"
        return f"CuPy is installed but cannot be imported ({error}); reinstall npformer with the extra cuda12 or cuda13"
    except Exception as error:  # a broken installation may raise anything
        return f"CuPy is installed but its import fails ({type(error).__name__}: {error}); reinstall it"
    try:
        if not cupy.is_available():
            return f"CuPy {cupy.__version__} is installed but no GPU answers; check the driver with nvidia-smi"
        if int((cupy.ones(3) + 1).sum()) != 6:
            return f"CuPy {cupy.__version__} computes wrong sums on this GPU; check driver and CUDA version"
    except Exception as error:
        return f"CuPy {cupy.__version__} is installed but the GPU fails: {type(error).__name__}: {error}"
    return None


class CupyDevice:
    """The current CUDA device."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self._allocator = cupy.cuda.get_allocator()
        self.number: int = cupy.cuda.Device().id
        properties = cupy.cuda.runtime.getDeviceProperties(self.number)
        self.name: str = properties["name"].decode()
        self.memory: int | None = properties.get("totalGlobalMem")

    def array(self, host: HostArray, dtype: str) -> Array:
        with self.cupy.cuda.using_allocator(self._allocator):  # arrays that stay do not come from a graph's pool
            return self.cupy.array(host, dtype=dtype)

    def host(self, x: Array) -> HostArray:
        return np.asarray(self.cupy.asnumpy(x))

    def owns(self, x: Any) -> bool:
        return isinstance(x, self.cupy.ndarray)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        return self.cupy.zeros(shape, dtype=dtype)  # CuPy allocates on 512-byte boundaries

    def synchronize(self) -> None:
        self.cupy.cuda.Device(self.number).synchronize()


def cupy_backend(dtype: str, kernels: str = "auto", precision: str = "float32") -> Backend:
    """The CuPy backend, as in ``get_backend``. Call ``cupy_problem`` first."""
    if kernels not in ("auto", "plain", "cuda"):
        raise ConfigError(
            f"kernels: expected auto, plain or cuda on a GPU, got {kernels}, which compute on the CPU; "
            "leave it out, or use device numpy"
        )
    kernels = "plain" if dtype == "complex128" or kernels == "plain" else "cuda"
    if kernels == "plain" and precision != "float32":
        raise ConfigError(f"precision: expected float32 for plain kernels, whose products are CuPy's, got {precision}")
    from npformer.backend.capture import Captured, Uncaptured
    from npformer.backend.cupy.graph_driver import CupyDriver

    device = CupyDevice()
    driver = CupyDriver(device.name)
    ops = with_one_precision(PLAIN, arrays=driver.cupy.ndarray)
    plain = Backend("cupy", ops, device, dtype, kernels=kernels, precision=precision, own_ops=ops)
    if kernels == "plain":  # nothing is recorded, since CuPy refuses its own products during recording
        return replace(plain, capture=lambda function, static_arguments: Uncaptured(function, driver))
    from npformer.backend.cuda import cuda_ops
    from npformer.backend.cuda.adam import DeviceUpdates
    from npformer.backend.cupy.cupy_runtime import CupyRuntime

    gpu = CupyRuntime(precision)
    ops = with_fallback(cuda_ops(gpu), ops, arrays=driver.cupy.ndarray)
    updates = DeviceUpdates(gpu, device.array)
    return replace(
        plain, ops=ops, own_ops=ops, adam_update=updates.by_host_numbers, updates=updates,
        capture=lambda function, static_arguments: Captured(function, static_arguments, driver, dtype),
    )  # fmt: skip
