"""Data is made once and kept; whatever is wrong with what was kept, it is made again."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from npformer.data.real.user_cache import cache_folder, cached_lines
from tests.failing_system import full_disk

LINES = ["first", "", "März\u2028 5", "last"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "some" / "where"
    monkeypatch.setenv("NPFORMER_CACHE", str(folder))
    return folder


def test_lines_are_made_once(folder):
    make = Mock(return_value=LINES)
    assert [cached_lines("x.tsv", make) for _ in range(3)] == [LINES] * 3
    assert make.call_count == 1
    assert [path.name for path in folder.iterdir()] == ["x.tsv"]
    assert cached_lines("y.tsv", lambda: []) == cached_lines("y.tsv", lambda: ["other"]) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:-1],
        lambda content: content[:-6],
        lambda content: content.replace(b"last", b"lost"),
        lambda content: content + b"more\n",
        lambda content: b"",
        lambda content: b"\xff" + content[1:],
        lambda content: content.partition(b"\n")[2],
    ],
)
def test_a_broken_file_is_made_again(folder, spoil):
    make = Mock(return_value=LINES)
    cached_lines("x.tsv", make)
    whole = (folder / "x.tsv").read_bytes()
    (folder / "x.tsv").write_bytes(spoil(whole))
    assert cached_lines("x.tsv", make) == LINES
    assert make.call_count == 2
    assert (folder / "x.tsv").read_bytes() == whole


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path, monkeypatch, folder):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("NPFORMER_CACHE", str(tmp_path / "file" / "cache"))
    make = Mock(return_value=LINES)
    assert cached_lines("x.tsv", make) == cached_lines("x.tsv", make) == LINES
    assert make.call_count == 2


def test_a_failed_write_leaves_nothing(folder, monkeypatch):
    full_disk(monkeypatch)
    assert cached_lines("x.tsv", lambda: LINES) == LINES
    assert list(folder.iterdir()) == []


def test_without_a_home_there_is_no_cache(monkeypatch):
    for name in ("NPFORMER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    assert cached_lines("x.tsv", lambda: LINES) == LINES


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("NPFORMER_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("NPFORMER_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "npformer"
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    for base in ("", "relative/is/to/be/ignored"):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        assert cache_folder() == tmp_path / "home" / ".cache" / "npformer"
