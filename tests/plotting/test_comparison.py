"""The picture of a bug's effect shows both runs and says what broke down."""

import numpy as np

from npformer.plotting.comparison import comparison_figure
from tests.plotting.figures import texts

NAN = float("nan")


def test_both_runs_are_drawn_and_named():
    figure = comparison_figure([2.0, 1.0], [2.0, 3.0], "A title", ["right: a", "wrong: b"])
    (axes,) = figure.axes
    assert texts(axes) == ["wrong 3", "right 1"]
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(lines["right"].get_ydata(), [2.0, 1.0])
    np.testing.assert_array_equal(lines["wrong"].get_xdata(), [1, 2])
    assert texts(figure) == ["A title", "right: a", "wrong: b"]


def test_a_run_that_broke_down_is_a_gap_and_a_sentence():
    (axes,) = comparison_figure([2.0, 1.0, 0.9], [2.0, NAN, NAN], "t").axes
    assert any("2 of 3 values not finite, first at step 2" in text for text in texts(axes))


def test_everything_stays_inside_the_picture(stays_inside):
    figure = comparison_figure([2.0, 1.0], [2.0, NAN], "A long title " * 9, ["a note that is long " * 12])
    assert stays_inside(figure)
