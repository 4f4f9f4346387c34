"""What must match for a resumed run to repeat the uninterrupted one bit for bit."""

from __future__ import annotations

import os
import platform

import numpy as np

from npformer.backend import Backend
from npformer.backend.numpy.blas import blas_core

#: Environment variables that limit the threads of NumPy's matrix products; the first one that is set counts.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def versions(backend: Backend) -> dict[str, str]:
    """The conditions of bit-exact resuming: versions, machine, backend, BLAS core or GPU, number of threads."""
    threads = next((os.environ[name] for name in THREAD_VARIABLES if name in os.environ), str(os.cpu_count()))
    here = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "threads": threads,
        "kernels": backend.kernels,
    }
    if backend.kernels == "numba":
        from npformer.engine.numba.intel import product_library  # only where Numba is

        here["products"] = product_library()
    core = blas_core() if backend.name == "numpy" else None
    if core is not None:
        here["BLAS core"] = core
    if backend.name != "cupy":
        return here
    if backend.engine is not None:
        from npformer.engine.cupy.blas import version  # only where CuPy is

        here["cuBLAS"] = version()
    of_device: dict[str, str] = backend.device.versions  # type: ignore[attr-defined]
    return here | of_device | {"device": backend.device.name, "precision": backend.precision}
