"""Pictures are the same everywhere, and writing one harms nothing that was there before."""

import subprocess
import sys

import matplotlib

from npformer.plotting.canvas import drawing, new_figure, png_bytes, write_picture


def small_figure(text="x"):
    with drawing():
        figure = new_figure(2.0, 1.0, 50.0)
        figure.text(0.5, 0.5, text)
    return figure


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
