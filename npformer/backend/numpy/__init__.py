"""NumPy: arrays on the host, and three tables of kernels: plain, numpy, numba."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from npformer.backend import workspace
from npformer.backend.backend import Backend
from npformer.backend.fallback import with_fallback, with_one_precision
from npformer.backend.numpy.blas import blas_product
from npformer.backend.numpy.blas_threads import one_blas_thread
from npformer.backend.numpy.philox import philox_bits
from npformer.backend.numpy.thread_pool import ThreadPool
from npformer.backend.ops import PLAIN, Ops, with_bits
from npformer.errors import DeviceError
from npformer.extras import install
from npformer.typing import Array, HostArray

MOST_THREADS = 8  # with more, threads mostly wait for Python's global interpreter lock

#: The least numbers (B·T·C) of a thread's shard of a batch with NumPy's kernels. In a smaller shard most of the time
#: goes to the interpreter, which runs one thread at a time. One thread, with all cores in its products, is then faster.
LEAST_PART = 1 << 15

#: Kernels "plain": exactly the code of ``functional``, so checking them checks every line of it.
TEXT = with_one_precision(PLAIN)

#: The same, with random bits from NumPy's Philox.
OPS: Ops = with_bits(PLAIN, philox_bits)

#: The fallback of the fast kernels, mostly for complex numbers: a gradient check calls it thousands of times.
CAREFUL = with_one_precision(OPS)


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
        memory = np.zeros(size + workspace.ALIGNMENT, dtype=np.uint8)  # NumPy itself aligns to 16 bytes
        start = -memory.ctypes.data % workspace.ALIGNMENT
        return memory[start : start + size].view(kind).reshape(shape)

    def synchronize(self) -> None:
        """Nothing to wait for: NumPy returns when it is done."""


def numpy_backend(dtype: str, kernels: str = "auto", threads: int | None = None) -> Backend:
    """The NumPy backend in dtype; kernels and threads as in ``get_backend``."""
    if dtype == "complex128":
        kernels = "plain"
    elif kernels == "auto":
        kernels = auto_kernels()[0]
    least_part = LEAST_PART if threads is None and kernels == "numpy" else 1
    threads = threads or (1 if kernels == "plain" else default_threads())
    shared = Backend(
        "numpy", TEXT, NumpyDevice(), dtype, kernels=kernels, threads=threads, least_part=least_part,
        in_threads=_pool(threads).run, own_ops=TEXT,
    )  # fmt: skip
    if kernels == "numpy":
        from npformer.backend.numpy.kernels import KERNELS, adam_update

        ops = with_fallback(KERNELS, CAREFUL)
        return replace(shared, ops=ops, own_ops=ops, adam_update=adam_update)
    if kernels == "numba":
        problem = numba_problem()
        if problem is not None:
            raise DeviceError(f"kernels: expected Numba's to be possible, but {problem}")
        from npformer.backend import numba as compiled

        ops = with_fallback(compiled.OPS, CAREFUL)
        return replace(
            shared,
            ops=ops,
            own_ops=ops,
            adam_update=compiled.adam_update,
            decoder_steps=compiled.decoder_steps,
            encoder_of_texts=compiled.encoder_of_texts,
            beam_choice=compiled.beam_choice,
            on_one_thread=one_blas_thread,
            capture_part=partial(compiled.captured_part, dtype=dtype),
            compile_ahead=partial(compiled.compile_ahead, dtype=dtype),
        )
    return shared


def numba_problem() -> str | None:
    """Why Numba's kernels cannot be used here, in words, or None if they can. In that case Numba has been imported."""
    if find_spec("numba") is None:
        return f"Numba is not installed; {install('fast')}"
    try:
        import_module("npformer.backend.numba")
    except Exception as error:  # usually NumPy is too new for this Numba; the other kernels do not need it
        return f"Numba is installed but cannot be used ({type(error).__name__}: {error}); update it, or remove it"
    return None


def auto_kernels() -> tuple[str, str]:
    """The kernels that "auto" means on NumPy, and why."""
    if numba_problem():
        return "numpy", "Numba cannot be used"
    if blas_product("s") is None:
        return "numpy", "NumPy's BLAS has no product that compiled kernels know, and their own is slow"
    return "numba", "Numba is installed, and NumPy's BLAS has a product to call"


def default_threads() -> int:
    """One thread per core that this process may use, fewer if the environment limits BLAS, at most MOST_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = (os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    return max(1, min([cores, MOST_THREADS, *(int(limit) for limit in limits if limit.isdigit())]))


@cache
def _pool(size: int) -> ThreadPool:
    """One pool of each size for the whole process."""
    return ThreadPool(size)
