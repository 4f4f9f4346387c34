"""What many tests share: backends in float64, and one on a device that is not the CPU."""

import functools
import gc
import os
import signal

import array_api_strict as strict
import numpy as np
import pytest

from npformer.backend import PLAIN, Backend, cupy_problem, get_backend, with_bits
from npformer.backend.select import numba_problem
from npformer.functional import philox_bits
from tests.browser import browser, chromium  # noqa: F401 - fixtures, found by their names
from tests.tiers import (  # noqa: F401 - hooks, found by their names
    is_smoke,
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_ignore_collect,
    pytest_terminal_summary,
)


def pytest_collection_finish():
    """Thousands of tests stay in memory to the end: the garbage collector need not look at them each time."""
    gc.collect()
    gc.freeze()


class StrictDevice:
    """array-api-strict's pretend device: it raises on mistakes that otherwise appear only on a GPU."""

    name = "device1"

    def __init__(self):
        self.device = strict.Device(self.name)

    def array(self, host, dtype):
        return strict.asarray(np.array(host, dtype=dtype), device=self.device)

    def host(self, x):
        return np.asarray(x.to_device(strict.Device("CPU_DEVICE")))

    def owns(self, x):
        return hasattr(x, "__array_namespace__") and x.__array_namespace__() is strict

    def zeros(self, shape, dtype):
        return strict.zeros(shape, dtype=getattr(strict, dtype), device=self.device)

    def synchronize(self):
        pass


def needs_numba(items):
    """Whether some of these tests are for neither a GPU nor a browser, or nobody knows which there are."""
    elsewhere = ("gpu", "browser")
    return not items or any(not any(map(item.get_closest_marker, elsewhere)) for item in items)


@pytest.fixture(scope="session", autouse=True)
def compiled_once(request):
    """Compile before the first test, so that none of them sees the announcement among its own output.

    Processes that share the tests share this, too: each compiles on its share of the cores, and takes from disk what
    another one has kept there by then. So each begins with another precision, and goes through its second one from
    the other end.
    """
    if not is_smoke(request.config) and needs_numba(request.session.items) and numba_problem() is None:
        from npformer.engine.numba import compiling, parallel_compile

        cores = parallel_compile.cores() // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
        order = -1 if os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579" else 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parallel_compile, "cores", lambda: cores)
            for kernels, dtype in zip((1, -1), ("float32", "float64")[::order], strict=True):
                compiling.prepare(compiling._kernels[::kernels], dtype)
    gc.collect()
    gc.freeze()  # what compiling needs stays, too


@pytest.fixture(scope="session", autouse=True)
def endless_patience():
    """The search for a cause stops by its count, not by the clock: a busy machine would find fewer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("npformer.check.causes.search.now", lambda: 0.0)
        yield


@pytest.fixture
def notebook(monkeypatch):
    """A cell of a notebook: what its kernel sets for all that it starts."""
    for name, value in {"TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def usual_signals():
    """SIGINT, SIGTERM and SIGHUP do what they do at a terminal, however these tests were started.

    A shell that starts them in its background lets them ignore SIGINT, and nohup SIGHUP.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def numpy64():
    """NumPy in float64, the plain pairs."""
    return get_backend("numpy", dtype="float64", kernels="plain")


@pytest.fixture
def numpy32():
    """NumPy in float32, the plain pairs."""
    return get_backend("numpy", dtype="float32", kernels="plain")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Each precision in turn."""
    return str(request.param)


@pytest.fixture(params=["plain", "numpy", "numba"])
def kernels(request):
    """Each table of kernels in turn."""
    problem = numba_problem() if request.param == "numba" else None
    if problem is not None:
        pytest.skip(problem)
    return str(request.param)


@pytest.fixture
def any64(kernels):
    """NumPy in float64, with each table of kernels in turn."""
    return get_backend("numpy", dtype="float64", kernels=kernels)


@pytest.fixture
def any32(kernels):
    """NumPy in float32, with each table of kernels in turn."""
    return get_backend("numpy", dtype="float32", kernels=kernels)


@functools.cache
def strict_ops():
    """The plain pairs with random bits that are remembered: to draw them is slow on the strict device.

    Backward draws what forward drew, and one case what another one did.
    """
    drawn = {}

    def bits(draw, size, like):
        key = (draw, size, like.shape[0])
        if key not in drawn:
            drawn[key] = philox_bits(draw, size, like)
        return drawn[key]

    return with_bits(PLAIN, bits)


@pytest.fixture
def strict64():
    """The plain pairs on array-api-strict's pretend device, in float64: a stand-in for CuPy."""
    return Backend(name="strict", ops=strict_ops(), device=StrictDevice(), dtype="float64")


@pytest.fixture
def gpu():
    """Asked for by what needs a GPU; skips, visibly, where none answers."""
    problem = cupy_problem()
    if problem is not None:
        pytest.skip(f"no GPU: {problem}")


@pytest.fixture
def cupy64(gpu):
    """CuPy in float64, where a GPU answers."""
    return get_backend("cupy", dtype="float64")


@pytest.fixture
def cupy32(gpu):
    """CuPy in float32, its products too, where a GPU answers."""
    return get_backend("cupy", dtype="float32")


@pytest.fixture
def is_durable(monkeypatch):
    """is_durable(path): whether that file or folder has been through fsync."""
    synced, real = set(), os.fsync

    def identity(status):
        return status.st_dev, status.st_ino

    def fsync(descriptor):
        synced.add(identity(os.fstat(descriptor)))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return lambda path: identity(path.stat()) in synced


@pytest.fixture
def alone():
    """The plain kernels in float32 on one thread."""
    return get_backend("numpy", kernels="plain", threads=1)
