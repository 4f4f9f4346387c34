"""npformer compile: all kernels, ahead of their first use."""

import pytest

pytest.importorskip("numba")
from npformer.cli import compile as command
from npformer.engine.numba import compiling, kernel_folder
from npformer.engine.numba.kernel_folder import CacheFolders


@pytest.fixture(autouse=True)
def two_kernels(monkeypatch, tmp_path):
    """Two small kernels that are not compiled yet; the folder for their files."""
    kept = [compiling.named(name) for name in ("add_and_compare.add", "adam.update")]
    new = [compiling.Kernel(compiling.inlined(each.dispatcher.py_func)) for each in kept]
    monkeypatch.setattr(compiling, "_kernels", new)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernel_folder.place.cache_clear()
    kernel_folder.say_once.cache_clear()
    monkeypatch.setattr(
        compiling, "compile_several", lambda kernels, dtype: [kernel.compile(dtype) for kernel in kernels]
    )
    yield tmp_path / "npformer"
    kernel_folder.place.cache_clear()


def test_it_compiles_missing_kernels(cli, two_kernels):
    done = cli("compile --dtype float32").quiet()
    first, last = done.lines
    assert first == "float32: 2 kernels, 2 of them compiled now"
    assert last.startswith(f"kept in {two_kernels} (")
    assert len(list(two_kernels.iterdir())) == 2
    outcome = cli("compile --json").fine()
    assert outcome.document | {"seconds": 0} == {
        "ok": True, "folder": str(two_kernels), "not_kept": 0, "seconds": 0, "dtypes": {
            "float32": {"kernels": 2, "compiled": []},
            "float64": {"kernels": 2, "compiled": ["add_and_compare.add", "adam.update"]},
        },
    }  # fmt: skip
    assert len(list(two_kernels.iterdir())) == 4


def test_kernels_that_cannot_be_kept_are_reported(cli, two_kernels, monkeypatch):
    two_kernels.touch()  # a file where the folder would be
    monkeypatch.setattr(kernel_folder, "_passing_folder", lambda: None)
    done = cli("compile --dtype float32")
    assert done.code == 1
    assert f"npformer: {two_kernels}: expected to keep every kernel there, but 2 are not kept" in done.err
    assert kernel_folder.place() == CacheFolders((), None)


def test_without_numba_it_is_refused(cli, monkeypatch):
    monkeypatch.setattr(command, "numba_problem", lambda: "Numba is not installed")
    cli("compile").refused("compile: expected a usable Numba, but Numba is not installed")


def test_other_words_are_refused(cli):
    cli("compile --dtype complex128").refused("expected one of float32, float64, both, got 'complex128'")
