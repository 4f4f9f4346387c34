"""What the processes of a run agree on before it begins: all make the same, or all refuse it.

And the conditions that must be the same for a resumed run to repeat the uninterrupted one bit for bit.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from npformer import errors
from npformer.backend import Backend
from npformer.backend.numpy.blas import blas_core
from npformer.errors import ConfigError, NpformerError

Made = TypeVar("Made")
#: Environment variables that limit the threads of NumPy's matrix products; the first one that is set counts.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
#: The condition of which no two processes have the same.
GPU = "GPU"


class World(NamedTuple):
    """How this process trains together with others. It changes no number, so no run keeps it."""

    ranks: Any = None  # a communicator, None for one process
    shard_optimizer: bool = False  # whether each keeps a part of the moments

    @property
    def is_first(self) -> bool:
        """Whether this process writes the run's files and tells of it: one of several does."""
        return self.ranks is None or bool(self.ranks.rank == 0)

    def agreed(self, make: Callable[[], Made], conditions: Callable[[Made], Mapping[str, str]] = lambda _: {}) -> Made:
        """make() of this process, once all have made theirs, with the same conditions.

        If one fails with an error of npformer, all raise that of the first one; ConfigError for other conditions.
        """
        if self.ranks is None:
            return make()
        try:
            made = make()
            own: dict[str, Any] = {"conditions": dict(conditions(made))}
        except NpformerError as problem:
            own = {"error": [type(problem).__name__, str(problem)]}
        every = self.ranks.gather_json(own)
        failed = next((told["error"] for told in every if "error" in told), None)
        error = getattr(errors, failed[0])(failed[1]) if failed else _difference([x["conditions"] for x in every])
        if error is not None:
            error.raised_on_every_rank = True
            raise error
        return made


def _difference(every: list[dict[str, str]]) -> ConfigError | None:
    """The first condition in which a process differs from the first one."""
    for rank, here in enumerate(every):
        for name, value in every[0].items():
            if name == GPU:
                continue
            other = here.get(name, "none")
            if other != value:
                lines = zip(value.splitlines(), other.splitlines(), strict=False)
                one, two = next(((a, b) for a, b in lines if a != b), (value, other))
                return ConfigError(
                    f"processes: expected the same {name} in all of them, got {one!r} in rank 0 and {two!r} in rank "
                    f"{rank}; start all with the same command, files and packages, each with a GPU of its own or "
                    "none: --device numpy"
                )
    gpus = [here[GPU] for here in every if GPU in here]
    if twice := next((gpu for i, gpu in enumerate(gpus) if gpu in gpus[:i]), None):
        return ConfigError(
            f"processes: expected a GPU of its own for each, got {twice} for several; start as many as there are GPUs, "
            "with all of them in CUDA_VISIBLE_DEVICES, or take --device numpy"
        )
    return None


SINGLE = World()


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
