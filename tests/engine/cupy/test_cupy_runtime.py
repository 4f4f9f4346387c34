"""CuPy's device runtime, as far as it runs without a GPU: its calls of CuPy, and their order."""

import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.engine.cuda.device_runtime import by_value
from npformer.engine.cuda.source import REAL, files, source
from npformer.engine.cupy import cupy_runtime
from npformer.engine.cupy.cupy_runtime import OPTIONS, CupyRuntime, as_argument
from npformer.errors import DeviceError
from tests.engine.cupy import emulated


@pytest.fixture
def cupy(monkeypatch):
    return emulated.installed(monkeypatch)


class Compiler:
    """A stand-in for RawModule. ``compiles`` is what a file's compilation does; ``order`` are those that ended."""

    def __init__(self, cupy, monkeypatch):
        self.compiles, self.order, self.given, self.launches = lambda file: None, [], [], []
        self.named = {source(file, dtype): (file, dtype) for file in files() for dtype in REAL}
        monkeypatch.setattr(cupy, "RawModule", self.module)
        cupy_runtime.announce.cache_clear()

    def module(self, *, code, options):
        self.given.append((self.named[code], options))
        file, dtype = self.named[code]

        def compile():
            try:
                self.compiles(file)
            finally:
                self.order.append((file, dtype))

        def get_function(name):
            assert (file, dtype) in self.order
            return lambda *given: self.launches.append((name, *given))

        return SimpleNamespace(compile=compile, get_function=get_function)


@pytest.fixture
def compiler(cupy, monkeypatch):
    return Compiler(cupy, monkeypatch)


def test_kernels_are_compiled_once_for_each_dtype(cupy, compiler):
    runtime, x = CupyRuntime(), cupy.zeros(3)
    runtime.launch("linear.add_bias", "float32", 3, 64, x, x, 5, 7, 2)
    runtime.launch("linear.add_bias", np.dtype("float32"), 3, 64, x, x, 5, 7, 2)
    assert sorted(compiler.given) == [((file, "float32"), OPTIONS) for file in files()]
    runtime.launch("sums.add_rows", "float32", 0, 64)
    runtime.launch("linear.add_bias", "float64", 1, 64, x, x, 5, 7, 2)
    runtime.launch("sums.add_rows", "float64", 1, 64, x)
    assert sorted(compiler.given) == [((file, dtype), OPTIONS) for file in files() for dtype in REAL]
    expected = [("add_bias", 3), ("add_bias", 3), ("add_bias", 1), ("add_rows", 1)]
    assert [told[:3] for told in compiler.launches] == [(name, (blocks,), (64,)) for name, blocks in expected]
    assert all(given is x for given in compiler.launches[0][3][:2])
    assert compiler.launches[0][3][2:] == (5, 7, 2)


def test_kernels_are_compiled_several_at_a_time_on_the_callers_device(cupy, compiler, monkeypatch):
    meeting, used, callers = threading.Barrier(2), [], threading.get_ident()
    monkeypatch.setattr(cupy.classes.Device, "use", lambda self: used.append((threading.get_ident(), self.id)))

    def compiles(file):
        assert (threading.get_ident(), 3) in used
        if file in longest:
            meeting.wait(600)

    longest = sorted(files(), key=lambda file: -len(source(file, "float32")))[:2]
    compiler.compiles = compiles
    runtime = CupyRuntime()
    with cupy.cuda.Device(3):
        runtime.launch("linear.add_bias", "float32", 1, 32)
    assert len(compiler.order) == len(files())
    assert callers not in dict(used)


@pytest.mark.parametrize("is_late", [True, False], ids=["takes long", "is cached"])
def test_what_takes_long_is_announced_once_and_has_a_bar(cupy, compiler, is_late, monkeypatch, capsys):
    over, bars, real = threading.Event(), [], cupy_runtime.Bar
    monkeypatch.setattr(cupy_runtime, "Bar", lambda *given: bars.append(given) or real(*given))
    if is_late:
        monkeypatch.setattr(
            cupy_runtime, "wait", lambda futures, seconds: over.set() or SimpleNamespace(not_done=set(futures))
        )
        compiler.compiles = lambda file: over.wait(600)
    else:
        monkeypatch.setattr(cupy_runtime, "PATIENCE", None)  # however long it takes
    runtime = CupyRuntime()
    for dtype in REAL:
        runtime.launch("linear.add_bias", dtype, 1, 32)
    assert capsys.readouterr().err.count("npformer: preparing kernels for this GPU") == is_late
    assert bars == [("compiling kernels", len(files()))] * (2 * is_late)


def test_a_kernel_that_does_not_compile_is_named(cupy, compiler):
    """The first by name, whichever of them fails first, when all have ended; the next launch tries again."""
    longer_failed = threading.Event()

    def compiles(file):
        if file == "layer_norm":
            longer_failed.set()
            raise cupy.cuda.compiler.CompileException("not this one")
        if file == "cross_entropy":
            assert longer_failed.wait(600)
            raise cupy.cuda.compiler.CompileException("cross_entropy.cu(3): error: no such thing\n")

    compiler.compiles = compiles
    runtime = CupyRuntime()
    with pytest.raises(
        DeviceError, match=r"^cross_entropy\.cu for float32: .* got: cross_entropy\.cu\(3\): error: no such thing; "
    ):
        runtime.launch("linear.add_bias", "float32", 1, 32)
    assert len(compiler.order) == len(files())
    compiler.compiles = lambda file: None
    runtime.launch("linear.add_bias", "float32", 1, 32)
    assert len(compiler.launches) == 1


def test_an_interrupt_begins_no_other_compilation(cupy, compiler, monkeypatch):
    over = threading.Event()

    def wait(futures, seconds):
        list(futures)[-1].add_done_callback(lambda future: over.set())
        raise KeyboardInterrupt

    monkeypatch.setattr(cupy_runtime, "wait", wait)
    monkeypatch.setattr(cupy_runtime, "ThreadPoolExecutor", partial(cupy_runtime.ThreadPoolExecutor, 1))
    compiler.compiles = lambda file: over.wait(600)
    with pytest.raises(KeyboardInterrupt):
        CupyRuntime().launch("linear.add_bias", "float32", 1, 32)
    assert len(compiler.order) == 1


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
