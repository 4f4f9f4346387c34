"""Where a command may write: a free name, or npformer's own file of that kind."""

import os

import pytest

from npformer.errors import OutputError
from npformer.places import OWN_JSON, OWN_PAGE, expect_place, write_file


def test_free_names_and_own_files(tmp_path):
    path = tmp_path / "t.json"
    expect_place(path, "--out", OWN_JSON)
    write_file(path, "--out", b'{"format":"npformer-trace"}')
    expect_place(path, "--out", OWN_JSON)
    with pytest.raises(OutputError, match="--html: expected a free name"):
        expect_place(path, "--html", OWN_PAGE)
    path.write_bytes(b" " * 5000 + OWN_JSON)
    with pytest.raises(OutputError, match="expected a free name"):
        expect_place(path, "--out", OWN_JSON)


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, how: False)
    with pytest.raises(OutputError, match="--out: expected a folder that can be written to"):
        expect_place(tmp_path / "t.json", "--out", OWN_JSON)


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    (tmp_path / "old").mkdir()
    with pytest.raises(OutputError, match="--out: expected to write"):
        write_file(tmp_path / "old", "--out", b"new")
    assert os.listdir(tmp_path) == ["old"]
