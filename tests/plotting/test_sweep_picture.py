"""The picture of the V: right curves and wrong ones told apart, names beside them, nothing lost."""

import numpy as np
import pytest

from npformer.plotting import colours
from npformer.plotting.sweep import sweep_figure
from npformer.proof.curves import Curve
from npformer.proof.sweep import STEPS
from tests.plotting.figures import expect_inside, texts

V = STEPS**2 + 1e-16 / STEPS


def curve(name, verdict="right", error=V):
    return Curve(name, STEPS, np.asarray(error), verdict)


MIXED = [
    curve("softmax · x"),
    curve("linear · weight", "WRONG", np.full(STEPS.shape, 0.5)),
    curve("relu · x", "KINK HERE"),
]


def lines(figure):
    return [line for line in figure.axes[0].lines if line.get_linestyle() == "-"]


def names(figure):
    """The names in the margin, from the top."""
    return [text for text in texts(figure.axes[0]) if " · " in text]


def test_curves_and_their_names():
    figure = sweep_figure(MIXED)
    colour = {line.get_ydata()[0]: line.get_color() for line in lines(figure)}
    assert colour[0.5] == colours.WARNING
    assert [line.get_color() for line in lines(figure)].count(colours.WARNING) == 2
    np.testing.assert_array_equal(lines(figure)[0].get_xdata(), STEPS)
    np.testing.assert_array_equal(lines(figure)[0].get_ydata(), V)
    assert names(figure) == ["linear · weight", "relu · x", "softmax · x"]  # what is wrong first
    said = [text for text in texts(figure.axes[0]) if ", lowest error " in text]
    assert said[0] == "WRONG, lowest error 5e-01"
    assert said[1].startswith("KINK HERE, ")
    assert said[2].startswith("right, ")
    ink = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert (ink[said[0]], ink[said[2]]) == (colours.WARNING, colours.TRAINING)


def test_each_name_has_the_number_that_is_on_its_curve():
    figure = sweep_figure(MIXED)
    (axes,) = figure.axes
    numbers = [text for text in axes.texts if text.get_text() in "123"]
    on_curves = [text for text in numbers if text.get_position()[0] <= 1]
    assert [text.get_text() for text in on_curves] == ["1", "2", "3"]
    assert [text.get_text() for text in numbers if text.get_position()[0] > 1] == ["1", "2", "3"]
    to_data = (axes.transData + axes.transAxes.inverted()).inverted()
    first, _, third = (to_data.transform(text.get_position()) for text in on_curves)
    assert first[1] == pytest.approx(0.5)
    assert np.isclose(V, third[1]).any(), "on its curve, near its lowest point, where no other number is"
    assert third[1] < 1e-9


def test_the_outlier_among_right_curves_is_named_first():
    outlier = curve("the · outlier", error=3e-9 + V)
    figure = sweep_figure([*(curve(f"right · {i}", error=V * (1 + i)) for i in range(30)), outlier])
    assert names(figure)[:3] == ["the · outlier", "right · 29", "right · 28"]
    strong = [line for line in lines(figure) if line.get_alpha() > 0.5]
    assert len(strong) == len(names(figure))
    np.testing.assert_array_equal(strong[-1].get_ydata(), outlier.error)  # on top of all others


def test_numbers_of_equal_curves_do_not_cover_each_other():
    figure = sweep_figure([curve(f"equal · {i}", "WRONG", np.full(STEPS.shape, 0.5)) for i in range(8)])
    places = [text.get_position() for text in figure.axes[0].texts if text.get_bbox_patch() is not None]
    assert len(set(places)) == 8


def test_the_axes():
    (axes,) = sweep_figure(MIXED).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlim()[0] > STEPS[0] > STEPS[-1] > axes.get_xlim()[1]  # h shrinks to the right
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step size h", "scaled error |D(h) − analytic|")
    assert {"h²", "rounding/h"} <= set(texts(axes))


def test_many_curves_are_counted_not_all_named():
    figure = sweep_figure([curve(f"right · {i}") for i in range(30)] + [curve("the · wrong", "WRONG")])
    assert names(figure)[0] == "the · wrong"
    assert len(names(figure)) == 10
    assert any(text.startswith("and 21 more, right, lowest errors up to ") for text in texts(figure.axes[0]))
    assert len(lines(figure)) == 31
    many = [curve(f"wrong · {i}", "WRONG") for i in range(12)]
    assert "and 2 more, 2 of them not right" in texts(sweep_figure(many).axes[0])


def test_curves_without_a_finite_error_are_named_too():
    figure = sweep_figure([curve("x · y", "CANNOT TELL", np.full(STEPS.shape, np.nan))])
    assert "CANNOT TELL, no finite error" in texts(figure.axes[0])


def test_an_error_of_exactly_zero_is_a_gap_and_nan_is_no_trouble():
    error = V.copy()
    error[[3, 5]] = 0, np.nan
    shown = lines(sweep_figure([curve("x", error=error)]))[0].get_ydata()
    assert np.flatnonzero(np.isnan(shown)).tolist() == [3, 5]


def test_nothing_sticks_out():
    long = "DecoderStack: post, relu · layers.0.memory_attention.output.weight"
    figure = sweep_figure([curve(long, "PROVES NOTHING") for _ in range(20)])
    expect_inside(figure)
    assert any(text.startswith("DecoderStac…") and text.endswith("output.weight") for text in texts(figure.axes[0]))
