"""CuPy: arrays on an NVIDIA GPU, the plain pairs as they are.

CuPy is imported when a backend is built, never before: importing npformer does not need it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend.backend import Backend
from npformer.backend.ops import PLAIN
from npformer.typing import Array, HostArray


def cupy_problem() -> str | None:
    """Why CuPy cannot run here, in words, or None if a GPU answers.

    That ``import cupy`` succeeds proves nothing: it does so without a driver. So a number is
    computed on the device and read back.
    """
    try:
        import cupy
    except ImportError as error:
        if (error.name or "").split(".")[0] == "cupy":
            return (
                "CuPy is not installed; in npformer's folder: pip install '.[cuda12]' or '.[cuda13]', as your driver is"
            )
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
        self.number: int = cupy.cuda.Device().id
        properties = cupy.cuda.runtime.getDeviceProperties(self.number)
        self.name: str = properties["name"].decode()

    def array(self, host: HostArray, dtype: str) -> Array:
        return self.cupy.array(host, dtype=dtype)

    def host(self, x: Array) -> HostArray:
        return np.asarray(self.cupy.asnumpy(x))

    def owns(self, x: Any) -> bool:
        return isinstance(x, self.cupy.ndarray)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        return self.cupy.zeros(shape, dtype=dtype)  # CuPy allocates on 512-byte boundaries

    def synchronize(self) -> None:
        self.cupy.cuda.Device(self.number).synchronize()


def cupy_backend(dtype: str) -> Backend:
    """The CuPy backend in dtype; ask ``cupy_problem`` first."""
    return Backend(name="cupy", ops=PLAIN, device=CupyDevice(), dtype=dtype)
