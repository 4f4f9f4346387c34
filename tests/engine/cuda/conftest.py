"""The kernels for GPUs, with a device runtime on the host."""

import dataclasses

import pytest

from npformer.backend import get_backend
from npformer.backend.fallback import with_fallback
from npformer.backend.select import cupy_backend
from npformer.engine.cuda import cuda_ops
from npformer.engine.cupy import cupy_runtime
from tests.engine.cuda import host_runtime
from tests.engine.cupy import emulated

#: (threads in every block, whether they and the blocks run last to first): alone, and a warp and a part of one.
BLOCKS = {"1 thread": (1, False), "40 threads": (40, True)}


@pytest.fixture
def runtimes():
    """The module host_runtime; skips, visibly, without a compiler."""
    problem = host_runtime.compiler_problem()
    if problem is not None:
        pytest.skip(problem)
    return host_runtime


@pytest.fixture(params=BLOCKS)
def runtime(request, runtimes):
    """Kernels compiled as C++, in blocks of each size."""
    block, backwards = BLOCKS[request.param]
    return runtimes.HostRuntime(block=block, backwards=backwards)


@pytest.fixture
def on_gpu():
    """on_gpu(runtime, dtype): a backend whose operations are those for GPUs, with fall-back to plain ones."""

    def build(runtime, dtype):
        plain = get_backend("numpy", dtype=dtype, kernels="plain")
        return dataclasses.replace(plain, ops=with_fallback(cuda_ops(runtime), plain.ops), kernels="cuda")

    return build


@pytest.fixture
def table(runtime):
    """The kernels on that GPU, bare."""
    return cuda_ops(runtime)


@pytest.fixture
def cupy(runtimes, monkeypatch):
    """The emulated CuPy, which announces no compilation."""
    monkeypatch.setattr(cupy_runtime, "announce", lambda: None)
    return emulated.installed(monkeypatch)


@pytest.fixture
def machine(cupy):
    return cupy.machine


@pytest.fixture
def a_gpu(cupy):
    return cupy_backend("float64")
