"""The picture of a bug's effect shows both runs and says what broke down."""

import numpy as np
import pytest

from npformer.errors import DataError, OutputError
from npformer.plotting.comparison import comparison_figure, draw_comparison

NAN = float("nan")


def test_both_runs_are_drawn_and_named():
    figure = comparison_figure([2.0, 1.0], [2.0, 3.0], "A title", ["right: a", "wrong: b"])
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts if text.get_text()] == ["wrong 3", "right 1"]
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(lines["right"].get_ydata(), [2.0, 1.0])
    np.testing.assert_array_equal(lines["wrong"].get_xdata(), [1, 2])
    assert [text.get_text() for text in figure.texts] == ["A title", "right: a", "wrong: b"]


def test_a_run_that_broke_down_is_a_gap_and_a_sentence():
    (axes,) = comparison_figure([2.0, 1.0, 0.9], [2.0, NAN, NAN], "t").axes
    assert any("2 of 3 values not finite, first at step 2" in text.get_text() for text in axes.texts)


def test_everything_stays_inside_the_picture(stays_inside):
    figure = comparison_figure([2.0, 1.0], [2.0, NAN], "A long title " * 9, ["a note that is long " * 12])
    assert stays_inside(figure)


def test_the_file(tmp_path):
    draw_comparison([1.0], [2.0], tmp_path / "a.png", "t")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OutputError, match=r"ending in \.png"):
        draw_comparison([1.0], [2.0], tmp_path / "a.txt", "t")
    with pytest.raises(DataError, match="expected at least one step of each run"):
        draw_comparison([], [2.0], tmp_path / "a.png", "t")
