"""Pictures are the same everywhere, and writing one harms nothing that was there before.

The ramp of the attention maps is fair: equal differences of weight look equally large. Every token leaves ink on an
axis, and none is long.
"""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from npformer.plotting import colours
from npformer.plotting.canvas import drawing, new_figure, png_bytes, write_picture
from npformer.plotting.labels import is_special, label_width, one_line, token_label


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


def cie_lightness(rgb):
    """L* of CIELAB (0 black, 100 white): another measure than the one the ramp is built with."""
    values = np.asarray(rgb, dtype=np.float64)
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    y = linear @ np.array([0.2126, 0.7152, 0.0722])
    return np.where(y > 216 / 24389, 116 * np.cbrt(y) - 16, y * 24389 / 27)


def test_lightness_falls_from_near_white_to_dark_in_even_steps():
    ramp = colours.weight_ramp()(np.linspace(0, 1, 11))[:, :3]
    lightness = cie_lightness(ramp)
    steps = -np.diff(lightness)
    assert lightness[0] > 95
    assert lightness[-1] < 20
    assert steps.min() > 0.75 * steps.mean()
    assert steps.max() < 1.25 * steps.mean()


def test_hidden_keys_have_a_colour_that_no_weight_has():
    ramp = colours.weight_ramp()(np.linspace(0, 1, 256))[:, :3]
    hidden = np.array(to_rgb(colours.HIDDEN))
    assert np.abs(ramp - hidden).max(axis=1).min() > 0.04
    assert (ramp[:, 2] >= ramp[:, 0] - 0.01).all()  # the ramp is cool throughout,
    assert hidden[0] > hidden[2] + 0.04  # hidden keys are warm


def test_lines_of_one_panel_differ_in_lightness_too():
    for one, other in [(colours.TRAINING, colours.HELD_OUT), (colours.TOKENS, colours.SEQUENCES)]:
        assert abs(cie_lightness(to_rgb(one)) - cie_lightness(to_rgb(other))) > 5


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("a", "a"),
        (" ", "␣"),
        ("[BOS]", "⟨s⟩"),
        ("[EOS]", "⟨/s⟩"),
        ("[UNK]", "⟨?⟩"),
        ("[PAD]", "⟨pad⟩"),
        ("[bos]", "[bos]"),  # text that happens to stand in brackets
        ("\n", "↵"),
        ("two words", "two␣words"),
        ("\x00", "\\x00"),
        ("\u202e", "\\u202e"),
        ("\u2003", "\N{REPLACEMENT CHARACTER}"),  # a wide space
        ("\ue000", "\N{REPLACEMENT CHARACTER}"),  # nobody's letter
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\u0301", "◌\u0301"),  # a lone accent would float over nothing
        ("", "∅"),
        ("$x$", "$x$"),
        ("##ing", "##ing"),
        ("中", "中"),
        ("extraordinarily", "extraordina…"),
    ],
)
def test_token_label(token, label):
    assert token_label(token) == label


def test_only_names_in_capitals_are_special():
    assert is_special("[EOS]")
    assert not any(map(is_special, ["E", "[", "[]", "[e]", "x[EOS]"]))


def test_wide_characters_take_more_room():
    assert label_width("中中", 10) > label_width("nn", 10) > label_width("n", 10) > 0


def test_a_heading_is_one_line_of_bounded_length():
    assert one_line("reverse: a b\nc", 40) == "reverse: a b↵c"
    assert one_line("run\u202e \x1b", 40) == "run\\u202e \\x1b"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcde…"
