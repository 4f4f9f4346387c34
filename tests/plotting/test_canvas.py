"""Pictures are the same everywhere, and writing one harms nothing that was there before."""

import os
import stat
import subprocess
import sys

import matplotlib
import pytest
from matplotlib.figure import Figure

from npformer.errors import OutputError
from npformer.plotting.canvas import drawing, new_figure, png_bytes, write_picture


def small_figure(text="x") -> Figure:
    with drawing():
        figure = new_figure(2.0, 1.0, 50.0)
        figure.text(0.5, 0.5, text)
    return figure


def test_two_calls_write_equal_bytes(tmp_path):
    first, second = tmp_path / "a.png", tmp_path / "b.png"
    write_picture(small_figure(), first)
    write_picture(small_figure(), second)
    assert first.read_bytes() == second.read_bytes()


def test_no_date_and_no_program_version_inside():
    data = png_bytes(small_figure())
    assert b"tEXt" not in data
    assert b"tIME" not in data


def test_the_readers_matplotlibrc_changes_nothing():
    plain = png_bytes(small_figure())
    theirs = {"text.usetex": True, "savefig.bbox": "tight", "font.size": 30, "savefig.transparent": True}
    with matplotlib.rc_context(theirs):
        assert png_bytes(small_figure()) == plain
        assert matplotlib.rcParams["font.size"] == 30  # and theirs is left as it was


def test_a_character_that_the_font_lacks_is_drawn_without_a_warning():
    assert png_bytes(small_figure("中文")) != png_bytes(small_figure(""))


def test_no_state_of_pyplot_and_no_window():
    code = "import sys, npformer.plotting; print('matplotlib.pyplot' in sys.modules, 'tkinter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_picture_made_earlier_is_replaced(tmp_path):
    path = tmp_path / "a.png"
    write_picture(small_figure("before"), path)
    before = path.read_bytes()
    write_picture(small_figure("after"), path)
    assert path.read_bytes() != before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.png"]


def test_a_new_picture_has_the_usual_permissions(tmp_path):
    write_picture(small_figure(), tmp_path / "a.png")
    (tmp_path / "usual").touch()
    assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


def test_a_file_that_is_no_picture_is_left_alone(tmp_path):
    path = tmp_path / "notes.png"
    path.write_text("my notes")
    with pytest.raises(OutputError, match=r"expected a free name, but '.*notes\.png' is there; choose another"):
        write_picture(small_figure(), path)
    assert path.read_text() == "my notes"


@pytest.mark.parametrize("target", ["picture", "nothing"])
def test_a_link_is_not_followed_and_not_replaced(tmp_path, target):
    write_picture(small_figure("mine"), tmp_path / "picture.png")
    mine, link = (tmp_path / "picture.png").read_bytes(), tmp_path / "a.png"
    link.symlink_to(tmp_path / f"{target}.png")
    with pytest.raises(OutputError, match=r"expected a free name, but '.*a\.png' is there; .*move it away"):
        write_picture(small_figure(), link)
    assert link.is_symlink()
    assert (tmp_path / "picture.png").read_bytes() == mine
    assert not (tmp_path / "nothing.png").exists()


def test_a_pipe_in_the_way_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(OutputError, match="expected a free name"):
        write_picture(small_figure(), tmp_path / "a.png")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.pdf", r"expected a file name ending in \.png, got '.*a\.pdf'"),
        ("nowhere/a.png", r"expected an existing folder, got '.*nowhere'; create it"),
        ("folder.png", r"expected the name of a file, got the folder '.*folder\.png'"),
        ("x" * 300 + ".png", "expected to write '.*', got: File name too long; choose another place"),
    ],
)
def test_an_impossible_place_is_an_output_error(tmp_path, name, message):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OutputError, match=message):
        write_picture(small_figure(), tmp_path / name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.png"]


def test_a_failed_write_keeps_the_old_picture_and_leaves_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    write_picture(small_figure("before"), path)
    before = path.read_bytes()

    def refuse(source, destination):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OutputError, match=r"expected to write '.*a\.png', got: Permission denied"):
        write_picture(small_figure("after"), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.png"]
