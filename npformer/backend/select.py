"""Which backend runs: the choice of a device, of kernels and of a precision, and the reason if it cannot run."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from npformer.backend.backend import Backend, expect_precision
from npformer.backend.cupy import NOT_INSTALLED, cupy_problem, plain_cupy_backend
from npformer.errors import ConfigError, DeviceError, meant
from npformer.extras import install
from npformer.io.progress_bar import say
from npformer.late import higher

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
    precision is the precision of CuPy's float32 products: "float32", or "tf32" (operands rounded to 10 bits); sums are
    always float32. Raises DeviceError, naming what is missing, if the choice cannot run; ConfigError for another name,
    dtype, or number.
    """
    if kernels not in KERNELS:
        raise ConfigError(f"kernels: expected one of {', '.join(KERNELS)}, got {kernels!r}")
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: expected an integer >= 1, or None for one for each core, got {threads}")
    expect_precision(precision)
    if name not in ("auto", "numpy", "cupy"):
        raise ConfigError(f"backend: expected auto, numpy or cupy, got {name!r}{meant(name, ('numpy', 'cupy'))}")
    problem = None if name == "numpy" else cupy_problem()
    if name == "cupy" and problem is not None:
        raise DeviceError(f"cupy: {problem}; or use --device numpy (in Python: get_backend('numpy'))")
    if problem is not None and not problem.startswith(NOT_INSTALLED):
        _say_once(f"npformer: computing on the CPU: {problem}")
    if name == "numpy" or problem is not None:
        return _numpy_backend(dtype, kernels, threads, precision, problem)
    return cupy_backend(dtype, kernels, precision)


@cache
def _say_once(text: str) -> None:
    say(text, sys.stderr)


def cupy_backend(dtype: str, kernels: str = "auto", precision: str = "float32") -> Backend:
    """The CuPy backend, as in ``get_backend``. Call ``cupy_problem`` first."""
    if kernels not in ("auto", "plain", "cuda"):
        raise ConfigError(
            f"kernels: expected auto, plain or cuda on a GPU, got {kernels}, which compute on the CPU; "
            "leave it out, or use device numpy"
        )
    if kernels == "cuda" and not has_engine():
        raise DeviceError("kernels: expected plain, since npformer/engine, which has those in CUDA, is not there")
    plain = dtype == "complex128" or kernels == "plain" or not has_engine()
    if plain and precision != "float32":
        raise ConfigError(f"precision: expected float32 for plain kernels, whose products are CuPy's, got {precision}")
    backend = plain_cupy_backend(dtype, "plain" if plain else "cuda", precision)
    return _with_engine("gpu", backend) if has_engine() else backend


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
    if dtype == "complex128":
        kernels = "plain"
    elif kernels == "auto":
        kernels = auto_kernels()[0]
    elif kernels == "numba" and (no_numba := numba_problem()) is not None:
        raise DeviceError(f"kernels: expected Numba's to be possible, but {no_numba}")
    backend = numpy_backend(dtype, "numpy" if kernels == "numba" else kernels)
    if kernels == "plain" and threads in (None, 1):
        return backend
    if not has_engine():
        if threads in (None, 1):
            return backend
        raise DeviceError(f"threads: expected None or 1, since npformer/engine is not there, got {threads}")
    return _with_engine("host", backend, kernels, threads)


def _with_engine(module: str, *options: Any) -> Backend:
    """The backend with an engine."""
    backend: Backend = higher(f"npformer.engine.{module}").with_engine(*options)
    return backend


def has_engine() -> bool:
    """Whether the package npformer.engine is there. Without it everything runs as it is written, on one thread."""
    return (Path(__file__).parents[1] / "engine").is_dir()


def numba_problem() -> str | None:
    """Why Numba's kernels cannot be used here, in words, or None if they can. In that case Numba has been imported."""
    if not has_engine():
        return "npformer/engine, which has them, is not there; install npformer as a whole"
    if find_spec("numba") is None:
        return f"Numba is not installed; {install('fast')}"
    try:
        higher("npformer.engine.numba")
    except Exception as error:  # usually NumPy is too new for this Numba; the other kernels do not need it
        return f"Numba is installed but cannot be used ({type(error).__name__}: {error}); update it, or remove it"
    return None


def auto_kernels() -> tuple[str, str]:
    """The kernels that "auto" means on NumPy, and why."""
    from npformer.backend.numpy.blas import blas_product

    if numba_problem():
        return "numpy", "Numba cannot be used"
    if blas_product("s") is None:
        return "numpy", "NumPy's BLAS has no product that compiled kernels know, and their own is slow"
    return "numba", "Numba is installed, and NumPy's BLAS has a product to call"
