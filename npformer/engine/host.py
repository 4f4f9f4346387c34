"""The engines of the NumPy backend: threads for all kernels, and what Numba compiles."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache, partial

from npformer.backend.backend import Backend
from npformer.backend.fallback import with_fallback
from npformer.backend.numpy import CAREFUL
from npformer.backend.numpy.blas import one_blas_thread
from npformer.engine.engine import FastEngine
from npformer.engine.numpy_adam import adam_update
from npformer.engine.thread_pool import ThreadPool, cores

MOST_THREADS = 8  # with more, threads mostly wait for Python's global interpreter lock

#: The least numbers (B·T·C) of a thread's shard of a batch with NumPy's kernels. In a smaller shard most of the time
#: goes to the interpreter, which runs one thread at a time. One thread, with all cores in its products, is then faster.
LEAST_PART = 1 << 15


def with_engine(backend: Backend, kernels: str, threads: int | None) -> Backend:
    """backend with the engine for these kernels, and with Numba's operations if they are numba; see ``get_backend``."""
    least_part = LEAST_PART if threads is None and kernels == "numpy" else 1
    threads = threads or (1 if kernels == "plain" else default_threads())
    engine = FastEngine(threads, least_part, in_threads=_pool(threads).run)
    if kernels == "numpy":
        return replace(backend, engine=replace(engine, adam_update=adam_update))
    if kernels != "numba":
        return replace(backend, engine=engine)
    from npformer.engine import numba as compiled

    ops = with_fallback(compiled.OPS, CAREFUL)
    engine = replace(
        engine,
        adam_update=compiled.adam_update,
        decoding=compiled.decoding,
        on_one_thread=one_blas_thread,
        capture_part=partial(compiled.captured_part, dtype=backend.dtype),
        prepare=partial(compiled.compile_ahead, dtype=backend.dtype),
    )
    return replace(backend, ops=ops, own_ops=ops, kernels=kernels, engine=engine)


def default_threads() -> int:
    """One thread per core that this process may use, fewer if the environment limits BLAS, at most MOST_THREADS."""
    limits = (os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    return max(1, min([cores(), MOST_THREADS, *(int(limit) for limit in limits if limit.isdigit())]))


@cache
def _pool(size: int) -> ThreadPool:
    """One pool of each size for the whole process."""
    return ThreadPool(size)
