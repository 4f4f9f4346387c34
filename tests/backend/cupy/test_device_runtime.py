"""CuPy's device runtime, as far as it runs without a GPU: its calls of CuPy, and their order."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.backend.cuda.source import source
from npformer.backend.cupy import device_runtime as module
from npformer.backend.cupy.blas import WORKSPACE
from npformer.backend.cupy.device_runtime import OPTIONS, CupyRuntime, as_argument
from npformer.errors import ConfigError, DeviceError


class FakeArray:
    """Memory that is nowhere."""

    data = SimpleNamespace(ptr=4096)


class FakeCupy:
    """The few names of CuPy that the GPU uses. ``said`` lists what it was told."""

    uint8 = np.uint8

    def __init__(self):
        self.said = []
        self.stream = 1
        self.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=self.stream))

    def empty(self, shape, dtype):
        self.said.append(("empty", shape, dtype))
        return FakeArray()

    def RawModule(self, *, code, options):  # noqa: N802
        self.said.append(("module", code, options))
        return SimpleNamespace(get_function=lambda name: lambda *given: self.said.append((name, *given)))


class FakeBlas:
    def __init__(self, said):
        self.said = said

    def use(self, *given):
        self.said.append(("use", *given))


@pytest.fixture
def cupy(monkeypatch):
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(module, "loaded_library", lambda: fake.said)
    monkeypatch.setattr(module, "Blas", FakeBlas)
    return fake


def test_kernels_are_compiled_once_and_announced_once(cupy, capsys):
    runtime, x = CupyRuntime(), FakeArray()
    cupy.said.clear()
    runtime.launch("linear.add_bias", "float32", 3, 64, x, x, 5, 7, 2)
    runtime.launch("linear.add_bias", np.dtype("float32"), 3, 64, x, x, 5, 7, 2)
    runtime.launch("linear.add_bias", "float64", 1, 64, x, x, 5, 7, 2)
    runtime.launch("sums.add_rows", "float32", 0, 64)
    modules = [told for told in cupy.said if told[0] == "module"]
    assert modules == [("module", source("linear", dtype), OPTIONS) for dtype in ("float32", "float64")]
    launches = [told for told in cupy.said if told[0] == "add_bias"]
    assert [told[1:3] for told in launches] == [((3,), (64,))] * 2 + [((1,), (64,))]
    assert launches[0][3] == (x, x, 5, 7, 2)
    assert capsys.readouterr().err.count("npformer: preparing kernels for this GPU") == 1


def test_arguments_are_64_bits_wide_and_none_is_a_null_pointer():
    """CuPy makes None no argument at all, and the driver would read the address of one."""
    for given, kind, value in ((None, np.int64, 0), (True, np.int64, 1), (-5, np.int64, -5), (np.uint8(3), np.int64, 3),
                               (np.True_, np.int64, 1), (0.5, np.float64, 0.5), (np.float32(0.5), np.float64, 0.5),
                               (np.float64(0.5), np.float64, 0.5)):  # fmt: skip
        made = as_argument(given)
        assert type(made) is kind
        assert made == value
    array = FakeArray()
    assert as_argument(array) is array


@pytest.mark.parametrize("array", [np.array(5), np.ones(3)], ids=["a number", "numbers"])
def test_an_array_of_the_host_is_no_argument(array):
    """CuPy passes an array of one number by value, which a kernel takes for an address."""
    with pytest.raises(DeviceError, match=r"kernel: expected an array in the GPU's memory, got NumPy's of shape"):
        as_argument(array)


def test_the_workspace_follows_the_stream(cupy):
    runtime = CupyRuntime()
    assert cupy.said == [("empty", WORKSPACE, np.uint8)]
    cupy.said.clear()
    assert runtime.blas is runtime.blas
    cupy.stream = 9
    assert runtime.blas is runtime.blas
    assert cupy.said == [("use", 1, 4096, WORKSPACE), ("use", 9, 4096, WORKSPACE)]


def test_another_precision(cupy):
    with pytest.raises(ConfigError, match="precision: expected one of float32, tf32, bfloat16, got 'fp16'"):
        CupyRuntime("fp16")
