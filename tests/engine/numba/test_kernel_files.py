"""Of a kept kernel nothing is used that was changed, and what was changed is said and compiled anew."""

import os

import pytest

from npformer.engine.numba import kernel_files, kernel_folder

KEY, CODE = b"k" * 32, b"machine code"


@pytest.fixture(autouse=True)
def nothing_said_yet():
    kernel_folder.say_once.cache_clear()


@pytest.fixture
def kept(tmp_path):
    kernel_files.write(tmp_path / "kernel", KEY, CODE)
    return tmp_path / "kernel"


def test_what_was_written_is_read_for_the_same_key(kept, capsys):
    assert kernel_files.read(kept, KEY) == CODE
    assert kernel_files.read(kept.with_name("other"), KEY) is None
    assert capsys.readouterr().err == ""
    assert [path.name for path in kept.parent.iterdir()] == ["kernel"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kernel_files.read(kept, b"l" * 32) is None  # another processor, version, source or kernel


def test_no_bit_of_a_file_can_be_another(kept):
    whole = kept.read_bytes()
    for i in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[i // 8] ^= 1 << i % 8
        kept.write_bytes(changed)
        assert kernel_files.read(kept, KEY) is None
    for size in range(len(whole)):
        kept.write_bytes(whole[:size])
        assert kernel_files.read(kept, KEY) is None
    kept.write_bytes(whole + b"\0")
    assert kernel_files.read(kept, KEY) is None


def test_it_is_said_once(kept, capsys):
    kept.write_bytes(b"")
    assert [kernel_files.read(kept, KEY) for _ in range(2)] == [None, None]
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"npformer: {kept.parent}: expected compiled kernels as they were kept, got files that are damaged or "
        "somebody else's, kernel the first; what was in them is compiled anew"
    ]


@pytest.mark.skipif(os.name != "posix", reason="who owns a file, and who may write it, is POSIX's to say")
def test_what_others_have_made_or_could_write_is_not_read(kept, monkeypatch):
    link = kept.with_name("link")
    link.symlink_to(kept)
    os.mkfifo(kept.with_name("pipe"))
    kept.with_name("folder").mkdir()
    assert [kernel_files.read(kept.with_name(name), KEY) for name in ("link", "pipe", "folder")] == [None] * 3
    kept.chmod(0o620)
    assert kernel_files.read(kept, KEY) is None
    kept.chmod(0o644)
    assert kernel_files.read(kept, KEY) == CODE
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert kernel_files.read(kept, KEY) is None


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "kernel").mkdir()
    with pytest.raises(OSError, match="kernel"):
        kernel_files.write(tmp_path / "kernel", KEY, CODE)
    assert [path.name for path in tmp_path.iterdir()] == ["kernel"]


def test_old_versions_go(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_files, "NEWEST", 2)
    for age, name in enumerate(["adam.update-a", "adam.update-b", "adam.update-c", "adam.updates-d"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (9000 - age, 9000 - age))
    kernel_files._remove_oldest(tmp_path, "adam.update")
    assert {path.name for path in tmp_path.iterdir()} == {"adam.update-a", "adam.update-b", "adam.updates-d"}
