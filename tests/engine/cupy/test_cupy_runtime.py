"""CuPy's device runtime, as far as it runs without a GPU: its calls of CuPy, and their order."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.engine.cuda.device_runtime import by_value
from npformer.engine.cuda.source import source
from npformer.engine.cupy import cupy_runtime
from npformer.engine.cupy.blas import WORKSPACE
from npformer.engine.cupy.cupy_runtime import OPTIONS, CupyRuntime, as_argument
from npformer.errors import ConfigError, DeviceError
from tests.engine.cuda.fake_cublas import HANDLE
from tests.engine.cupy import emulated


@pytest.fixture
def cupy(monkeypatch):
    return emulated.installed(monkeypatch)


class Timer:
    """A timer of which the test says when it is over."""

    running = ()

    def __init__(self, seconds, function):
        assert seconds == cupy_runtime.PATIENCE
        self.over = function

    def start(self):
        Timer.running = (self,)

    def cancel(self):
        Timer.running = ()


def test_kernels_are_compiled_once_and_announced_once_if_that_takes_long(cupy, monkeypatch, capsys):
    modules, launches, said = [], [], []
    monkeypatch.setattr(threading, "Timer", Timer)
    cupy_runtime.announce.cache_clear()

    def module(*, code, options):
        modules.append((code, options))

        def get_function(name):
            (timer,) = Timer.running
            if len(modules) == 2:  # the first comes from CuPy's cache
                timer.over(), timer.over()
            said.append(capsys.readouterr().err)
            return lambda *given: launches.append((name, *given))

        return SimpleNamespace(get_function=get_function)

    monkeypatch.setattr(cupy, "RawModule", module)
    runtime, x = CupyRuntime(), cupy.zeros(3)
    runtime.launch("linear.add_bias", "float32", 3, 64, x, x, 5, 7, 2)
    runtime.launch("linear.add_bias", np.dtype("float32"), 3, 64, x, x, 5, 7, 2)
    runtime.launch("linear.add_bias", "float64", 1, 64, x, x, 5, 7, 2)
    runtime.launch("sums.add_rows", "float32", 0, 64)
    assert modules == [(source("linear", dtype), OPTIONS) for dtype in ("float32", "float64")]
    assert [told[:3] for told in launches] == [("add_bias", (blocks,), (64,)) for blocks in (3, 3, 1)]
    assert all(given is x for given in launches[0][3][:2])
    assert launches[0][3][2:] == (5, 7, 2)
    assert [text.count("npformer: preparing kernels for this GPU") for text in said] == [0, 1]
    assert not Timer.running


def test_arguments_are_64_bits_wide_and_none_is_a_null_pointer():
    """CuPy makes None no argument at all, and the driver would read the address of one."""
    for given, kind, value in ((None, np.int64, 0), (True, np.int64, 1), (-5, np.int64, -5), (np.uint8(3), np.int64, 3),
                               (np.True_, np.int64, 1), (0.5, np.float64, 0.5), (np.float32(0.5), np.float64, 0.5),
                               (np.float64(0.5), np.float64, 0.5)):  # fmt: skip
        made = as_argument(given)
        assert type(made) is kind
        assert made == value
    array = object()
    assert as_argument(array) is array
    struct = by_value([3, -4], 5)  # CuPy passes an array of one number by value, and this is one number of 40 bytes
    assert as_argument(struct) is struct
    assert (struct.size, struct.tobytes()) == (1, np.array([3, -4, 0, 0, 0]).tobytes())


@pytest.mark.parametrize("array", [np.array(5), np.ones(3)], ids=["a number", "numbers"])
def test_an_array_of_the_host_is_no_argument(array):
    """CuPy passes an array of one number by value, which a kernel takes for an address."""
    with pytest.raises(DeviceError, match=r"kernel: expected an array in the GPU's memory, got NumPy's of shape"):
        as_argument(array)


def test_the_workspace_follows_the_stream(cupy):
    runtime, stream = CupyRuntime(), cupy.cuda.Stream(non_blocking=True)
    place, size = runtime._workspace.data.ptr, runtime._workspace.nbytes
    assert runtime.blas is runtime.blas
    with stream:
        assert runtime.blas is runtime.blas
    (created, _), *calls = cupy.cublas.calls
    assert created == "cublasCreate_v2"
    expected = []
    for each in (cupy.cuda.get_current_stream(), stream):  # a new stream forgets the workspace
        expected += [("cublasSetStream_v2", HANDLE, each.ptr), ("cublasSetWorkspace_v2", HANDLE, place, size)]
    assert [(name, *given.values()) for name, given in calls] == expected
    assert size == WORKSPACE


def test_another_precision(cupy):
    with pytest.raises(ConfigError, match="precision: expected one of float32, tf32, bfloat16, got 'fp16'"):
        CupyRuntime("fp16")
