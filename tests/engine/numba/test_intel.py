"""Intel's library: found, set up and used where it should be, left alone and said why elsewhere."""

import ctypes
import importlib.metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from npformer.engine.numba import intel as module
from npformer.engine.numba.compiling import inlined
from npformer.engine.numba.intel import Intel, intel, intel_product, product_library
from npformer.engine.numba.products import product

used = pytest.mark.skipif(intel().library is None, reason=f"Intel's library is not in use: {intel().problem}")


@pytest.fixture
def anew(monkeypatch):
    """The module, which looks again, and forgets what it found."""
    intel.cache_clear()
    yield module
    monkeypatch.undo()
    intel.cache_clear()


class FakeLibrary:
    """What MKL answers when it is set up."""

    def __init__(self, layer):
        self._layer = layer
        self.asked = []

    def MKL_Set_Threading_Layer(self, layer):  # noqa: N802 - MKL's name
        self.asked.append(("layer", layer))
        return self._layer

    def MKL_CBWR_Set(self, way):  # noqa: N802 - MKL's name
        self.asked.append(("repeatable", way))
        return 0


def installed(monkeypatch, *names, processor="sapphirerapids"):
    """Let there be a package mkl 9.9 of these files, on this processor."""
    files = [SimpleNamespace(name=name, locate=lambda name=name: Path("/somewhere") / name) for name in names]
    package = SimpleNamespace(version="9.9", files=files)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: package)
    monkeypatch.setattr(module.llvm, "get_host_cpu_name", lambda: processor)


def test_not_installed(anew, monkeypatch):
    def none(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", none)
    assert anew.intel() == Intel(None, "", "it is not installed")
    assert anew.intel_product("s") is None
    assert product_library() == "NumPy's BLAS"


@pytest.mark.parametrize("name", ["libmkl_rt.so.3", "mkl_rt.2.dll"])
def test_it_is_loaded_from_its_own_files_and_set_up(name, anew, monkeypatch):
    installed(monkeypatch, "libmkl_core.so.3", name)
    library, loaded = FakeLibrary(1), []
    monkeypatch.setattr(ctypes, "CDLL", lambda path: loaded.append(path) or library)
    assert anew.intel() == Intel(library, "9.9")
    assert loaded == [str(Path("/somewhere") / name)]
    assert library.asked == [("layer", 1), ("repeatable", 2)]
    assert product_library() == "MKL 9.9"


@pytest.mark.parametrize(
    ("files", "processor", "layer", "problem"),
    [
        (["libmkl_rt.so.3"], "znver5", 1, "on this processor (znver5) OpenBLAS is faster"),
        (["libmkl_rt.so.3"], "sapphirerapids", 0, "another package has set it up with threads of its own"),
        (["libmkl_rt.so.3"], "sapphirerapids", None, "it cannot be loaded (no such file)"),
        (["libmkl_core.so.3"], "sapphirerapids", 1, "its mkl_rt is not among its files"),
    ],
)
def test_left_alone_and_why(files, processor, layer, problem, anew, monkeypatch):
    def load(path):
        if layer is None:
            raise OSError("no such file")
        return FakeLibrary(layer)

    installed(monkeypatch, *files, processor=processor)
    monkeypatch.setattr(ctypes, "CDLL", load)
    assert anew.intel() == Intel(None, "9.9", problem)


@used
@pytest.mark.parametrize(("letter", "number"), [("s", ctypes.c_float), ("d", ctypes.c_double)])
def test_the_real_one_multiplies_as_numpy_does_with_64_bit_sizes(letter, number):
    rng, gemm = np.random.default_rng(0), intel_product(letter)
    a, b = (rng.normal(size=shape).astype(np.dtype(number)) for shape in ((7, 30), (30, 5)))
    c = np.empty((7, 5), a.dtype)
    whole, where = ctypes.c_int64, ctypes.c_void_p
    gemm(
        101, 111, 111, whole(7), whole(5), whole(30), number(1), where(a.ctypes.data), whole(30),
        where(b.ctypes.data), whole(5), number(0), where(c.ctypes.data), whole(5),
    )  # fmt: skip
    np.testing.assert_allclose(c, a @ b, rtol=1e-12 if letter == "d" else 1e-5, atol=1e-5)


@used
def test_the_real_one_has_no_threads_and_its_bits_do_not_depend_on_addresses():
    library = intel().library
    assert library.MKL_Get_Max_Threads() == 1
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(33, 47)), rng.normal(size=(47, 29))
    multiply = inlined(lambda a, b, c: product(a, b, 0, c))
    seen = set()
    for shift in (0, 1, 3, 8):
        room = [np.empty(x.size + shift)[shift:].reshape(x.shape) for x in (a, b, np.empty((33, 29)))]
        room[0][:], room[1][:] = a, b
        multiply(*room)
        seen.add(room[2].tobytes())
    assert len(seen) == 1
