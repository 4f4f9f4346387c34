"""Functions of NumPy's BLAS are found wherever NumPy keeps it; without one, nothing is printed."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npformer.backend.numpy import blas as module
from npformer.backend.numpy.blas import CORES, PRODUCTS, blas_core, blas_function, blas_product

EXTENSION = Path(np._core._multiarray_umath.__file__)


@pytest.fixture(autouse=True)
def afresh():
    """Libraries are looked for again, then and afterwards."""
    for cached in (module._libraries, blas_function):
        cached.cache_clear()
    yield
    for cached in (module._libraries, blas_function):
        cached.cache_clear()


def exports(**functions):
    """A library with these functions."""
    library = type("Library", (), {})()
    for name, function in functions.items():
        setattr(library, name, function)
    return library


def test_numpys_own_extension_is_asked_first_and_what_stands_beside_numpy_next(tmp_path, monkeypatch):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy.libs").mkdir()
    for name in ("libgfortran.dll", "libopenblas.dll", "libscipy_openblas64_.dll"):
        (tmp_path / "numpy.libs" / name).touch()
    there = {EXTENSION.name: exports(one=1), "libscipy_openblas64_.dll": exports(one=2, two=3)}
    asked = []

    def load(path):
        asked.append(Path(path).name)
        if Path(path).name not in there:
            raise OSError("invalid header")
        return there[Path(path).name]

    monkeypatch.setattr(module.np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    monkeypatch.setattr(ctypes, "CDLL", load)
    assert (blas_function("one"), blas_function("two"), blas_function("none", "two")) == (1, 3, 3)
    assert blas_function("none") is None
    assert asked == [EXTENSION.name, "libopenblas.dll", "libscipy_openblas64_.dll"]


@pytest.mark.parametrize("spelling", PRODUCTS)
def test_every_spelling_of_the_product_is_found(spelling, monkeypatch):
    library = exports(**{spelling.format("s"): "single", spelling.format("d"): "double"})
    monkeypatch.setattr(module, "_libraries", lambda: [exports(), library])
    assert (blas_product("s"), blas_product("d"), blas_product("c")) == ("single", "double", None)


@pytest.mark.skipif(
    "openblas" not in str(np.show_config(mode="dicts")["Build Dependencies"]["blas"]), reason="NumPy has another BLAS"
)
def test_numpys_openblas_multiplies():
    function = blas_product("d")
    assert function is not None
    a, b, c = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4), np.ones((2, 4))
    data = ctypes.c_void_p
    number, size = ctypes.c_double, ctypes.c_int64
    function(101, 111, 111, size(2), size(4), size(3), number(1), data(a.ctypes.data), size(3), data(b.ctypes.data),
             size(4), number(1), data(c.ctypes.data), size(4))  # fmt: skip
    assert np.array_equal(c, a @ b + 1)


@pytest.mark.parametrize("spelling", CORES)
def test_every_spelling_of_the_core_is_found(spelling, monkeypatch):
    class Name:
        """A function of C's, which has a type to return."""

        restype: Any = ctypes.c_int

        def __call__(self):
            return b"Haswell" if self.restype is ctypes.c_char_p else 0

    monkeypatch.setattr(module, "_libraries", lambda: [exports(), exports(**{spelling: Name()})])
    assert blas_core() == "Haswell"
