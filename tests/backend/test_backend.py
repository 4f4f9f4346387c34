"""get_backend: which backend it chooses, its errors when no GPU answers, and what a backend offers."""

import builtins
import dataclasses
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from npformer.backend import PLAIN, get_backend, select
from npformer.backend.cupy import LEAST
from npformer.errors import ConfigError, DeviceError
from npformer.extras import install


def no_device():
    return False


def fake_cupy(**members):
    """A module that imports as CuPy does where no GPU is, with some members replaced."""
    module = ModuleType("cupy")
    vars(module).update({"__version__": "99.0", "is_available": no_device} | members)
    return module


def refuse(*args):
    raise RuntimeError("cudaErrorInsufficientDriver")


def without_headers(*args):
    raise ValueError('cupy_x.cu(1): error: cannot open source file "cuda_fp16.h"')


class NoSum:
    """An array on a GPU that computes nonsense."""

    def __init__(self, size):
        pass

    def __add__(self, other):
        return self

    def sum(self):
        return 5


class Sums(NoSum):
    """An array on a GPU that computes."""

    def sum(self):
        return 6


def yes():
    return True


BROKEN = {
    "not installed": (
        None,
        rf"CuPy is not installed; {re.escape(install('cuda12'))}, or the extra cuda13 if your driver is for CUDA 13",
    ),
    "no device": (fake_cupy(), r"CuPy 99\.0 is installed but no GPU answers; check the driver with nvidia-smi"),
    "first allocation": (
        fake_cupy(is_available=yes, ones=refuse),
        r"CuPy 99\.0 is installed but the GPU fails: RuntimeError: cudaErrorInsufficientDriver; update NVIDIA's driver",
    ),
    "no headers": (
        fake_cupy(is_available=yes, ones=without_headers),
        r"cannot open source file.*; the CUDA headers come with the extras: .*cuda12",
    ),
    "an older one": (
        fake_cupy(__version__="13.6.0", is_available=yes, ones=Sums),
        rf"CuPy 13\.6\.0 is installed, expected 14\.1 or later; {re.escape(install('cuda12'))}",
    ),
    "the question itself": (fake_cupy(is_available=refuse), "the GPU fails: RuntimeError: cudaErrorInsuff"),
    "wrong sums": (fake_cupy(is_available=yes, ones=NoSum), "computes wrong sums on this GPU"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_gpu_that_does_not_answer(monkeypatch, case, capsys):
    """Where CuPy was installed, somebody wants the GPU: auto says once, in one line, why it is not used."""
    module, message = BROKEN[case]
    monkeypatch.setitem(sys.modules, "cupy", module)
    select._say_once.cache_clear()
    assert [get_backend("auto").name for _ in range(2)] == ["numpy", "numpy"]
    said = capsys.readouterr().err
    assert said.count("\n") == (module is not None)
    assert module is None or re.match(rf"npformer: computing on the CPU: .*{message}", said)
    with pytest.raises(DeviceError, match=f"cupy: .*{message}.*; or use --device numpy"):
        get_backend("cupy")


def test_the_least_version_is_what_is_installed():
    setup = (Path(__file__).parents[2] / "setup.cfg").read_text(encoding="utf-8")
    assert re.findall(r"cupy-cuda\d+x\[ctk\]>=([\d.]+)", setup) == [".".join(map(str, LEAST))] * 2


class Loading(ModuleType):
    """cupy.cuda, whose cuBLAS is loaded when it is imported."""

    def __getattr__(self, name):
        if name == "cublas":
            raise ImportError('Failure finding "libcublasLt.so.12"')
        raise AttributeError(name)


def test_a_gpu_without_cublas_is_left_and_auto_says_why(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(is_available=yes, ones=Sums))
    monkeypatch.setitem(sys.modules, "cupy.cuda", Loading("cupy.cuda"))
    select._say_once.cache_clear()
    assert [get_backend("auto").name for _ in range(2)] == ["numpy", "numpy"]
    why = 'a GPU answers, but CuPy cannot load cuBLAS (Failure finding "libcublasLt.so.12"); '
    said = capsys.readouterr().err
    assert said.startswith(f"npformer: computing on the CPU: {why}")
    assert "cuda12" in said
    assert said.count("\n") == 1
    with pytest.raises(DeviceError, match=f"^cupy: {re.escape(why)}.*; or use --device numpy"):
        get_backend("cupy")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ImportError("libcuda.so.1: no such file"), r"cannot be imported \(libcuda\.so\.1: no such file\); reinstall"),
        (ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock"), "CuPy is installed but cannot be"),
        (AttributeError("numpy has no attribute x"), r"its import fails \(AttributeError: numpy has no attribute x\)"),
    ],
)
def test_an_import_that_breaks_is_told_from_one_that_is_missing(monkeypatch, error, message):
    real_import = builtins.__import__

    def broken_import(name, *args, **options):
        if name == "cupy":
            raise error
        return real_import(name, *args, **options)

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(builtins, "__import__", broken_import)
    assert get_backend("auto").name == "numpy"
    with pytest.raises(DeviceError, match=message):
        get_backend("cupy")


def test_numpy_is_chosen_without_asking_for_a_gpu(monkeypatch):
    monkeypatch.setattr("npformer.backend.select.cupy_problem", refuse)
    assert str(get_backend("numpy", kernels="plain", threads=1)) == "numpy (plain) on CPU, float32"
    assert str(get_backend("numpy", kernels="numpy", threads=3)) == "numpy (numpy) on CPU, float32, 3 threads"


def test_the_requested_number_of_threads_or_as_many_as_pay_off(monkeypatch):
    monkeypatch.setattr("npformer.engine.host.default_threads", lambda: 4)
    asked = (0, 1 << 15, (1 << 16) - 1, 1 << 16, 1 << 30)
    chosen = {
        kernels: [get_backend("numpy", kernels=kernels, threads=threads).engine.parts_of(n) for n in asked]
        for kernels, threads in (("numpy", None), ("plain", 2))
    }
    assert chosen == {"numpy": [1, 1, 1, 2, 4], "plain": [1, 2, 2, 2, 2]}
    assert get_backend("numpy", kernels="plain").engine is None
    assert [get_backend("numpy", kernels="numpy", threads=3).engine.parts_of(n) for n in (1, 2, 9)] == [1, 2, 3]


def test_unknown_names_and_dtypes_are_listed():
    with pytest.raises(ConfigError, match="backend: expected auto, numpy or cupy, got 'torch'"):
        get_backend("torch")
    for dtype in ("float16", "int64", "", "double"):
        with pytest.raises(ConfigError, match=f"dtype: expected one of float32, float64, complex128, got '{dtype}'"):
            get_backend("numpy", dtype=dtype)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precision": "fp16"}, "precision: expected one of float32, tf32, got 'fp16'"),
        ({"precision": "tf32"}, "precision: expected float32 on NumPy, got tf32: rounded operands make no"),
        ({"kernels": "cuda"}, "kernels: expected kernels other than cuda on NumPy, since cuda needs a GPU; try auto"),
        ({"kernels": "fast"}, "kernels: expected one of auto, plain, numpy, numba, cuda, got 'fast'"),
    ],
)
def test_options_that_need_a_gpu_are_refused_on_a_cpu(options, text):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        get_backend("numpy", **options)


def test_precision_applies_to_float32_products(numpy32):
    assert get_backend("numpy").precision == "float32"
    gpu = dataclasses.replace(numpy32, name="cupy", precision="tf32", kernels="cuda", engine=None)
    assert str(gpu) == "cupy (cuda) on CPU, float32, products in tf32"
    with pytest.raises(ConfigError, match="precision: expected float32 for arrays of float64, got tf32"):
        dataclasses.replace(gpu, dtype="float64")


def test_kernels_of_the_other_device_are_refused(monkeypatch):
    monkeypatch.setattr("npformer.backend.select.cupy_problem", lambda: None)
    with pytest.raises(ConfigError, match="kernels: expected auto, plain or cuda on a GPU, got numba"):
        get_backend("cupy", kernels="numba")
    with pytest.raises(ConfigError, match="precision: expected float32 for plain kernels, whose products are CuPy's"):
        get_backend("cupy", kernels="plain", precision="tf32")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_arrays_come_in_its_dtype_and_are_copies(dtype):
    backend = get_backend("numpy", dtype=dtype)
    host = np.arange(3.0)
    x = backend.array(host)
    x += 1
    assert host.tolist() == [0, 1, 2]
    assert x.dtype == backend.zeros((2, 3)).dtype == dtype
    assert backend.array([1, 2]).dtype == dtype
    assert backend.integers(np.array([1, 2], dtype=np.int8)).dtype == np.int64
    assert backend.host(x) is x
    assert backend.device.owns(x)
    assert not backend.device.owns([1.0])


def test_any_device_with_the_five_methods_will_do(strict64):
    for field in dataclasses.fields(PLAIN):  # forwards differ in who draws their bits
        assert getattr(strict64.ops, field.name).backward is getattr(PLAIN, field.name).backward
    assert str(strict64) == "strict (plain) on device1, float64"
    assert strict64.host(strict64.zeros((2,))).tolist() == [0, 0]
    strict64.device.synchronize()
