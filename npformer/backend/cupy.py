"""CuPy: arrays on an NVIDIA GPU, with plain kernels. ``engine/gpu.py`` adds those in CUDA.

CuPy is imported when a backend is built, never before: importing npformer does not need it.
"""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np

from npformer.backend.backend import Backend
from npformer.backend.fallback import with_one_precision
from npformer.backend.ops import PLAIN
from npformer.errors import DeviceError
from npformer.extras import install
from npformer.typing import Array, HostArray

#: How problems begin of which "auto" does not speak: nobody asked for a GPU here.
NOT_INSTALLED = "CuPy is not installed"
LEAST = (14, 1)  # of CuPy, as setup.cfg asks for: before, an array lost its memory with its pool
#: Words of CuPy's errors -> what they ask for.
REMEDIES = {
    "InsufficientDriver": "update NVIDIA's driver (nvidia-smi shows the CUDA that it is for), or take the extra cuda12",
    "NoDevice": "check the driver with nvidia-smi; CUDA_VISIBLE_DEVICES may hide the GPU",
    "header": "the CUDA headers come with the extras: {way}",
    "cannot open source file": "the CUDA headers come with the extras: {way}",
}


def cupy_problem() -> str | None:
    """Why CuPy cannot run here, in words, or None if a GPU answers.

    A successful ``import cupy`` proves nothing, since it also succeeds without a driver. So a number is
    computed on the device and read back.
    """
    way = f"{install('cuda12')}, or the extra cuda13 if your driver is for CUDA 13"
    try:
        import cupy
    except ImportError as error:
        if (error.name or "").split(".")[0] == "cupy":
            return f"{NOT_INSTALLED}; {way}"
        return f"CuPy is installed but cannot be imported ({error}); reinstall npformer with the extra cuda12 or cuda13"
    except Exception as error:  # a broken installation may raise anything
        return f"CuPy is installed but its import fails ({type(error).__name__}: {error}); reinstall it"
    name = f"CuPy {cupy.__version__}"
    if tuple(int(part) for part in re.findall(r"\d+", cupy.__version__)[:2]) < LEAST:
        return f"{name} is installed, expected {'.'.join(map(str, LEAST))} or later; {way}"
    try:
        if not cupy.is_available():
            return f"{name} is installed but no GPU answers; check the driver with nvidia-smi"
        if int((cupy.ones(3) + 1).sum()) != 6:
            return f"{name} computes wrong sums on this GPU; check driver and CUDA version"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        remedies = (remedy for word, remedy in REMEDIES.items() if word.lower() in text.lower())
        remedy = next(remedies, "check driver and CUDA version").format(way=way)
        return f"{name} is installed but the GPU fails: {text}; {remedy}"
    try:
        from cupy.cuda import cublas  # noqa: F401 - loads the library, which CuPy's plain wheel leaves out
    except ImportError as error:
        return f"a GPU answers, but CuPy cannot load cuBLAS ({error}); {way}"
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

    @property
    def card(self) -> str:
        """Which GPU this is, in words that no other one of any machine has."""
        return f"{self.cupy.cuda.runtime.deviceGetPCIBusId(self.number)} of {platform.node()}"

    @property
    def versions(self) -> dict[str, str]:
        """What decides the bits of results beside the kind of the GPU."""
        driver: int = self.cupy.cuda.runtime.driverGetVersion()
        return {"CuPy": self.cupy.__version__, "driver": f"CUDA {driver // 1000}.{driver % 1000 // 10}"}

    def array(self, host: HostArray, dtype: str) -> Array:
        expect_current(self.cupy, self.number)
        with self.cupy.cuda.using_allocator(self._allocator):  # arrays that stay do not come from a graph's pool
            return self.cupy.array(host, dtype=dtype)

    def host(self, x: Array) -> HostArray:
        return np.asarray(self.cupy.asnumpy(x))

    def owns(self, x: Any) -> bool:
        return isinstance(x, self.cupy.ndarray)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        expect_current(self.cupy, self.number)
        return self.cupy.zeros(shape, dtype=dtype)  # CuPy allocates on 512-byte boundaries

    def synchronize(self) -> None:
        self.cupy.cuda.Device(self.number).synchronize()


def expect_current(cupy: Any, number: int) -> None:
    """Raise DeviceError unless the GPU with this number is the current one."""
    current = cupy.cuda.Device().id
    if current != number:
        raise DeviceError(
            f"device: expected GPU {number} to be the current one, as it was when this backend was made, got GPU "
            f"{current}; leave cupy.cuda.Device({current}), or make the backend and the model within it"
        )


def plain_cupy_backend(dtype: str, kernels: str, precision: str) -> Backend:
    """The CuPy backend with plain operations; kernels names those it will have. Call ``cupy_problem`` first."""
    device = CupyDevice()
    ops = with_one_precision(PLAIN, arrays=device.cupy.ndarray)
    return Backend("cupy", ops, device, dtype, precision, kernels, own_ops=ops)
