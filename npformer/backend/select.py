"""Which backend runs: the choice of a device, of kernels and of a precision, and the reason if it cannot run."""

from __future__ import annotations

from npformer.backend.backend import PRECISIONS, Backend
from npformer.backend.cupy import cupy_backend, cupy_problem
from npformer.errors import ConfigError, DeviceError

KERNELS = ("auto", "plain", "numpy", "numba", "cuda")


def get_backend(
    name: str = "auto",
    dtype: str = "float32",
    *,
    kernels: str = "auto",
    threads: int | None = None,
    precision: str = "float32",
) -> Backend:
    """The backend called name: "numpy", "cupy", or "auto", which is cupy if a GPU answers, else numpy.

    dtype is "float32", "float64", or "complex128" (for checks). kernels chooses the kernels: on both devices
    "plain" (the code of ``functional``); on NumPy "numpy" (faster, needs only NumPy) or "numba" (faster
    still, needs the extra ``fast``); on CuPy "cuda" (npformer's own kernels). "auto" is the fastest that is
    installed; complex numbers always use plain kernels. threads is the number of threads that share a training
    batch on NumPy. None means one for each core; fewer with kernels "numpy" if the batch is so small that threads
    would wait for each other; and one with plain kernels, so that a step runs exactly as the code reads.
    precision is the precision of CuPy's float32 products: "float32", "tf32" (operands rounded to 10 bits) or
    "bfloat16" (to 7); sums are always float32. Raises DeviceError, naming what is missing, if the choice cannot
    run; ConfigError for another name, dtype, or number.
    """
    if kernels not in KERNELS:
        raise ConfigError(f"kernels: expected one of {', '.join(KERNELS)}, got {kernels!r}")
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected an integer >= 1, or None for one for each core, got {threads}")
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: expected one of {', '.join(PRECISIONS)}, got {precision!r}")
    if name not in ("auto", "numpy", "cupy"):
        raise ConfigError(f"backend: expected auto, numpy or cupy, got {name!r}")
    problem = None if name == "numpy" else cupy_problem()
    if name == "cupy" and problem is not None:
        raise DeviceError(f"cupy: {problem}; or use --device numpy (in Python: get_backend('numpy'))")
    if name == "numpy" or problem is not None:
        return _numpy_backend(dtype, kernels, threads, precision, problem)
    return cupy_backend(dtype, kernels, precision)


def _numpy_backend(dtype: str, kernels: str, threads: int | None, precision: str, problem: str | None) -> Backend:
    """The NumPy backend. problem is the reason why "auto" did not choose CuPy, or None."""
    from npformer.backend.numpy import numpy_backend  # here, since NumPy's random numbers are imported with it

    why = "" if problem is None else f" ({problem})"
    if kernels == "cuda":
        raise ConfigError(f"kernels: expected kernels other than cuda on NumPy, since cuda needs a GPU{why}; try auto")
    if precision != "float32":
        raise ConfigError(
            f"precision: expected float32 on NumPy, got {precision}: rounded operands make no product faster on a "
            f"CPU{why}; leave it out, or use a GPU (device cupy)"
        )
    return numpy_backend(dtype, kernels, threads)
