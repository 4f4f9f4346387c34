"""Kernels are kept in a folder of one's own; any other is not used, which is said, and worked around."""

import os

import pytest

from npformer.engine.numba import kernel_folder
from npformer.engine.numba.kernel_folder import CacheFolders

place = kernel_folder.place.__wrapped__
pytestmark = pytest.mark.skipif(os.name != "posix", reason="who owns a folder, and who may write it, is POSIX's to say")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The usual folder, and what is passing beside it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_folder.tempfile, "tempdir", str(tmp_path))
    kernel_folder.say_once.cache_clear()
    return tmp_path / "cache" / "npformer"


def passing(folder):
    """The folder that ends with the process."""
    assert folder.to_write.name == "npformer"
    assert folder.to_write.parent.name.startswith("npformer-kernels-")
    assert folder.to_write.stat().st_mode & 0o777 == 0o700
    return folder.to_write


def test_it_is_made_and_closed_to_others(folder, capsys):
    for _ in range(2):
        assert place() == CacheFolders((folder,), folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().err == ""


def test_where_it_is(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/given")
    folders = []
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", ""):
        folders.append(str(kernel_folder.usual_folder()))
        monkeypatch.delenv(name, raising=False)
    assert folders == ["/given/npformer", "/caches/npformer", "/home/somebody/.cache/npformer"]


def others_may_write(folder, monkeypatch):
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def of_somebody_else(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)


def a_link(folder, monkeypatch):
    folder.parent.mkdir()
    folder.symlink_to(folder.parent)


REFUSED = {others_may_write: "others can write to it", of_somebody_else: "it is somebody else's",
           a_link: "it is no folder"}  # fmt: skip


@pytest.mark.parametrize("make", REFUSED)
def test_somebody_elses_folder_is_neither_read_nor_written(make, folder, monkeypatch, capsys):
    make(folder, monkeypatch)
    kernel_folder = place()
    assert kernel_folder.folders == (passing(kernel_folder),)
    stderr = capsys.readouterr().err
    assert stderr.startswith(
        f"npformer: {folder}: expected a folder for compiled kernels that is yours alone to write, got: {REFUSED[make]}"
    )
    assert stderr.endswith("Set that right, or set NUMBA_CACHE_DIR to another folder\n")


def test_read_only_arrays_are_accepted(folder, monkeypatch, capsys):
    def refuse(dir):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(kernel_folder.tempfile, "TemporaryFile", refuse)
    found = place()
    assert found.folders == (folder, passing(found))
    assert "got: Read-only file system; they last as long as this process" in capsys.readouterr().err


def test_the_passing_folder_goes_with_the_process(folder, tmp_path, run_apart):
    others_may_write(folder, pytest.MonkeyPatch())
    program = """
from npformer.engine.numba import add_and_compare, kernel_folder
add_and_compare.compare.compile("float32")
assert len(list(kernel_folder.place().to_write.iterdir())) == 1
"""
    run_apart(program, TMPDIR=str(tmp_path), NUMBA_CACHE_DIR=str(folder.parent))
    assert list(tmp_path.iterdir()) == [folder.parent]
    assert list(folder.iterdir()) == []
