"""BLAS threads: one inside, the old number afterwards, and no effect on an unknown library."""

import numpy as np
import pytest

from npformer.backend.numpy import blas as module
from npformer.backend.numpy.blas import blas_threads, can_set_blas_threads, one_blas_thread

known = pytest.mark.skipif(not can_set_blas_threads(), reason="NumPy uses a BLAS whose threads cannot be set")


class Library:
    """A BLAS of five threads, until it is told another number."""

    def __init__(self):
        self.now = 5

    def get(self):
        return self.now

    def set(self, threads):
        self.now = threads


@pytest.fixture
def library(monkeypatch):
    """Stands in for OpenBLAS."""
    made = Library()
    monkeypatch.setattr(module, "_controller", lambda: (made.get, made.set))
    return made


@pytest.fixture
def unknown(monkeypatch):
    """NumPy uses another BLAS."""
    monkeypatch.setattr(module, "_controller", lambda: None)


def test_restored_after_an_error(library):
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        raise KeyboardInterrupt
    assert blas_threads() == 5


def test_another_blas_is_left_alone(unknown):
    assert not can_set_blas_threads()
    assert blas_threads() is None
    with one_blas_thread():
        assert blas_threads() is None
    with pytest.raises(ValueError, match="passes"), one_blas_thread():
        raise ValueError("passes")


@known
def test_numpys_own_openblas_obeys_the_thread_setting():
    before = blas_threads()
    assert before is not None
    assert before >= 1
    with one_blas_thread():
        assert blas_threads() == 1
        np.ones((300, 300)) @ np.ones((300, 300))
    assert blas_threads() == before


@pytest.mark.parametrize("spelling", module.SPELLINGS)
@pytest.mark.parametrize("missing", ["", "get", "set"])
def test_both_functions_are_needed_under_any_spelling(spelling, missing, monkeypatch):
    made = Library()
    there = {spelling.format(verb): getattr(made, verb) for verb in ("get", "set") if verb != missing}
    monkeypatch.setattr(module, "_controller", module._controller.__wrapped__)
    monkeypatch.setattr(module, "blas_function", lambda *names: next((there[n] for n in names if n in there), None))
    assert can_set_blas_threads() == (not missing)
    with one_blas_thread():
        assert made.now == (5 if missing else 1)
