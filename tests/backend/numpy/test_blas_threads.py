"""BLAS threads: one within, as many as before afterwards, and nothing at all where the library is unknown."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npformer.backend.numpy import blas_threads as module
from npformer.backend.numpy.blas_threads import blas_threads, can_set_blas_threads, one_blas_thread

known = pytest.mark.skipif(not can_set_blas_threads(), reason="NumPy uses a BLAS whose threads cannot be set")


class Library:
    """A BLAS that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.now = 5

    def get(self) -> int:
        return self.now

    def set(self, threads: int) -> None:
        self.told.append(threads)
        self.now = threads


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Stands in for OpenBLAS, with five threads."""
    made = Library()
    monkeypatch.setattr(module, "_controller", lambda: made)
    return made


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy uses another BLAS."""
    monkeypatch.setattr(module, "_controller", lambda: None)


def test_one_within_and_as_many_as_before_afterwards(library: Library) -> None:
    with one_blas_thread():
        assert blas_threads() == 1
    assert blas_threads() == 5
    assert library.told == [1, 5]


def test_restored_after_an_error(library: Library) -> None:
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        raise KeyboardInterrupt
    assert blas_threads() == 5


def test_nested(library: Library) -> None:
    with one_blas_thread():
        with contextlib.suppress(ValueError), one_blas_thread():
            raise ValueError
        assert blas_threads() == 1
    assert blas_threads() == 5


def test_another_blas_is_left_alone(unknown: None) -> None:
    assert not can_set_blas_threads()
    assert blas_threads() is None
    with one_blas_thread():
        assert blas_threads() is None
    with pytest.raises(ValueError, match="passes"), one_blas_thread():
        raise ValueError("passes")


@known
def test_numpys_own_openblas_does_as_it_is_told() -> None:
    before = blas_threads()
    assert before is not None
    assert before >= 1
    with one_blas_thread():
        assert blas_threads() == 1
        np.ones((300, 300)) @ np.ones((300, 300))
    assert blas_threads() == before


@pytest.fixture
def afresh() -> Iterator[None]:
    """The library is looked for again, then and afterwards."""
    module._controller.cache_clear()
    yield
    module._controller.cache_clear()


def test_no_library_where_wheels_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, afresh: None) -> None:
    monkeypatch.setattr(module.np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    assert not can_set_blas_threads()


@pytest.mark.parametrize("folder", ["numpy.libs", "numpy/.dylibs"])
@pytest.mark.parametrize("loads", [True, False])
def test_a_library_that_cannot_be_loaded_or_has_no_such_function(
    folder: str, loads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, afresh: None
) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "libopenblas-0.so").write_bytes(b"no library")
    asked: list[Any] = []

    def load(path: str) -> object:
        asked.append(Path(path).name)
        if not loads:
            raise OSError("invalid ELF header")
        return object()

    monkeypatch.setattr(module.np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    monkeypatch.setattr(ctypes, "CDLL", load)
    assert not can_set_blas_threads()
    assert asked == ["libopenblas-0.so"]


@pytest.mark.parametrize("spelling", module.SPELLINGS)
def test_every_spelling_of_the_functions_is_found(
    spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, afresh: None
) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy.libs").mkdir()
    (tmp_path / "numpy.libs" / "libscipy_openblas64_-1.so").touch()
    made, exports = Library(), type("Exports", (), {})()
    setattr(exports, spelling.format("get"), made.get)
    setattr(exports, spelling.format("set"), made.set)
    monkeypatch.setattr(module.np, "__file__", str(tmp_path / "numpy" / "__init__.py"))
    monkeypatch.setattr(ctypes, "CDLL", lambda path: exports)
    assert blas_threads() == 5
    with one_blas_thread():
        assert made.now == 1
