"""Where a command may write: a free name, or npformer's own file of that kind."""

import os

import pytest

from npformer.errors import OutputError
from npformer.io import atomic_files
from npformer.io.output_files import OWN_JSON, OWN_PAGE, OWN_PICTURE, expect_place, write_file

KINDS = (OWN_JSON, OWN_PAGE, OWN_PICTURE)


@pytest.mark.parametrize("taken", KINDS)
def test_free_names_and_own_files(tmp_path, taken):
    path = tmp_path / "t"
    expect_place(path, "--out", taken)
    write_file(path, "--out", taken + b" and more")
    expect_place(path, "--out", taken)
    other = KINDS[KINDS.index(taken) - 1]
    with pytest.raises(OutputError, match=r"--html: expected a free name, but '.*t' is there; choose another, or move"):
        expect_place(path, "--html", other)
    path.write_bytes(b" " * 5000 + taken)
    with pytest.raises(OutputError, match="expected a free name"):
        expect_place(path, "--out", taken)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "--out: expected the name of a file, got the folder '.*folder'"),
        ("nowhere/t", "--out: expected an existing folder, got '.*nowhere'; create it"),
        ("x" * 300, "--out: expected to write '.*', got: File name too long; choose another place"),
        ("link", "expected a free name"),
        ("pipe", "expected a free name"),
    ],
)
def test_an_impossible_place_is_left_as_it_is(tmp_path, name, message):
    """A link is not followed and not replaced, and a pipe is not waited for."""
    mine = tmp_path / "mine"
    mine.write_bytes(OWN_JSON)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(mine)
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OutputError, match=message):
        expect_place(tmp_path / name, "--out", OWN_JSON)
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "link").is_symlink()
    assert mine.read_bytes() == OWN_JSON


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, how: False)
    with pytest.raises(OutputError, match="--out: expected a folder that can be written to"):
        expect_place(tmp_path / "t.json", "--out", OWN_JSON)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "old"
    path.write_bytes(b"old")

    def refuse(source, destination):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(atomic_files.os, "replace", refuse)
    with pytest.raises(OutputError, match=r"--out: expected to write '.*old', got: Permission denied; choose another"):
        write_file(path, "--out", b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old"]
