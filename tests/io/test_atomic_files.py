"""Files and folders are whole or not there, at whichever system call the disk fails."""

import errno
import math
import os

import pytest

from npformer.io import atomic_files
from tests.failing_system import WatchedSystem, every_failure, watched


def test_write_atomically_replaces_the_content(tmp_path):
    path = tmp_path / "file"
    for data in (b"", b"first", b"second" * 100_000):
        atomic_files.write_atomically(path, data)
        assert path.read_bytes() == data
        assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_has_the_usual_mode(tmp_path):
    atomic_files.write_atomically(tmp_path / "ours", b"")
    (tmp_path / "usual").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_write_atomically_fails_whole_at_every_call(tmp_path, monkeypatch):
    path = tmp_path / "file"
    failed = 0
    for system in every_failure(monkeypatch):
        path.write_bytes(b"old")
        watched(monkeypatch, system)
        try:
            atomic_files.write_atomically(path, b"new content")
        except OSError:
            failed += 1
            renamed = system.fail_at > 4  # open, write, fsync, close and replace come first
            assert path.read_bytes() == (b"new content" if renamed else b"old")
        else:
            assert path.read_bytes() == b"new content"
        assert os.listdir(tmp_path) == ["file"]
    assert failed == 6


def test_writes_that_the_system_takes_in_parts_are_completed(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files.os, "write", lambda fd, data, real=os.write: real(fd, data[:3]))
    atomic_files.write_atomically(tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_everything_is_synced_before_it_is_named(tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "replace", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, n=name, real=real: (order.append(n), real(*args))[1])
    atomic_files.write_atomically(tmp_path / "file", b"x")
    assert order == ["fsync", "replace", "fsync"]
    order.clear()
    atomic_files.commit_folder(tmp_path / "folder", {"a": b"1", "b": b"2"}, lambda path: None)
    assert order == ["fsync", "fsync", "fsync", "rename", "fsync"]


def test_remove_folder_hides_before_it_deletes(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    monkeypatch.setattr(atomic_files.shutil, "rmtree", lambda *args, **kwargs: None)  # the kill comes here
    atomic_files.remove_folder(tmp_path / "folder")
    (left,) = os.listdir(tmp_path)
    assert left.startswith(atomic_files.TEMPORARY)
    monkeypatch.undo()
    (tmp_path / ".tmp-file").touch()
    (tmp_path / "kept").touch()
    atomic_files.remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["kept"]


def test_file_systems_that_cannot_sync_a_folder_are_accepted(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "os", WatchedSystem(1, code=errno.EINVAL))
    atomic_files.sync_folder(tmp_path)
    monkeypatch.setattr(atomic_files, "os", WatchedSystem(1, code=errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        atomic_files.sync_folder(tmp_path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_called_full(code):
    assert atomic_files.disk_is_full(OSError(code, "x"))
    assert "disk is full" in atomic_files.describe(OSError(code, "x"))


def test_other_errors_keep_their_words():
    assert not atomic_files.disk_is_full(OSError(errno.EACCES, "Permission denied"))
    assert atomic_files.describe(OSError(errno.EACCES, "Permission denied")) == "Permission denied"


DOCUMENT = {
    "text": "é\ud800\n",
    "numbers": [1, -0.0, 1e-05, 2**200, True, None],
    "odd": {"a": math.inf, "b": [-math.inf]},
}


def test_sealed_json_comes_back():
    back = atomic_files.unseal(atomic_files.seal(DOCUMENT))
    assert back == DOCUMENT
    assert list(back) == list(DOCUMENT)
    assert math.copysign(1, back["numbers"][1]) == -1
    assert math.isnan(atomic_files.unseal(atomic_files.seal({"x": (1, math.nan)}))["x"][1])


def test_a_seal_breaks_at_any_truncation_and_any_flipped_bit():
    data = atomic_files.seal(DOCUMENT)
    broken = [data[:length] for length in range(len(data))]
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            broken.append(bytes(flipped))
    broken += [data + b"\n", data.replace(b"1e-05", b"1E-05"), b"[" * 100_000, b"[]", b"{}", b"null"]
    for damaged in broken:
        with pytest.raises(ValueError, match="check sum"):
            atomic_files.unseal(damaged)


@pytest.mark.parametrize("value", [{1: 2}, {"$float": "x"}, {1, 2}, b"bytes", 1j, [object()]])
def test_what_json_would_change_is_refused(value):
    with pytest.raises(ValueError, match=r"^\.state.*: expected None, bool, int"):
        atomic_files.seal({"state": value})
