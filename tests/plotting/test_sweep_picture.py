"""The picture of the V: right curves and wrong ones told apart, names beside them, nothing lost."""

import struct
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from npformer.errors import DataError, OutputError
from npformer.plotting import colours, draw_sweep
from npformer.plotting.sweep import sweep_figure
from npformer.proof.curves import Curve
from npformer.proof.sweep import STEPS

V = STEPS**2 + 1e-16 / STEPS


def curve(name: str, verdict: str = "right", error=V) -> Curve:
    return Curve(name, STEPS, np.asarray(error), verdict)


MIXED = [
    curve("softmax · x"),
    curve("linear · weight", "WRONG", np.full(STEPS.shape, 0.5)),
    curve("relu · x", "KINK HERE"),
]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def lines(figure: Figure) -> list[Any]:
    return [line for line in figure.axes[0].lines if line.get_linestyle() == "-"]


def test_curves_and_their_names():
    figure = sweep_figure(MIXED)
    assert [line.get_color() for line in lines(figure)] == [colours.TRAINING, colours.WARNING, colours.WARNING]
    np.testing.assert_array_equal(lines(figure)[0].get_xdata(), STEPS)
    np.testing.assert_array_equal(lines(figure)[0].get_ydata(), V)
    named = [text for text in texts(figure) if " · " in text]
    assert named == ["linear · weight: WRONG", "relu · x: KINK HERE", "softmax · x: right"]  # what is wrong first
    ink = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert ink["linear · weight: WRONG"] == colours.WARNING
    assert ink["softmax · x: right"] == colours.TRAINING


def test_the_axes():
    (axes,) = sweep_figure(MIXED).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlim()[0] > STEPS[0] > STEPS[-1] > axes.get_xlim()[1]  # h shrinks to the right
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step size h", "scaled error |D(h) − analytic|")
    assert {"h²", "rounding/h"} <= set(texts(axes.figure))


def test_many_curves_are_counted_not_all_named():
    figure = sweep_figure([curve(f"right {i}") for i in range(30)] + [curve("the wrong one", "WRONG")])
    named = [text for text in texts(figure) if ": " in text]
    assert named[0] == "the wrong one: WRONG"
    assert len(named) == 14
    assert "and 17 more" in texts(figure)
    assert len(lines(figure)) == 31
    assert lines(figure)[0].get_alpha() < lines(sweep_figure(MIXED))[0].get_alpha()


def test_an_error_of_exactly_zero_is_a_gap_and_nan_is_no_trouble():
    error = V.copy()
    error[[3, 5]] = 0, np.nan
    shown = lines(sweep_figure([curve("x", error=error)]))[0].get_ydata()
    assert np.flatnonzero(np.isnan(shown)).tolist() == [3, 5]


def test_nothing_sticks_out():
    long = "DecoderStack: post, relu · layers.0.memory_attention.output.weight"
    figure = sweep_figure([curve(long, "PROVES NOTHING") for _ in range(20)])
    figure.canvas.draw()
    (axes,) = figure.axes
    width, height = figure.canvas.get_width_height()
    for text in (*axes.texts, *figure.texts, axes.xaxis.label, axes.yaxis.label):
        box = text.get_window_extent()
        assert 0 <= box.y0 < box.y1 <= height, text
        assert 0 <= box.x0 < box.x1 <= width, text
    assert "DecoderStack:…ttention.output.weight: PROVES NOTHING" in texts(figure)


def test_the_file(tmp_path):
    path = tmp_path / "v.png"
    draw_sweep(MIXED, path)
    data = path.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1650, 900)
    draw_sweep(MIXED, path)  # a picture may be drawn again
    assert path.read_bytes() == data


def test_what_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"^curves: expected at least one, got none; nothing to draw$"):
        draw_sweep([], tmp_path / "v.png")
    with pytest.raises(OutputError, match=r"^picture: expected a file name ending in \.png"):
        draw_sweep(MIXED, tmp_path / "v.pdf")
    notes = tmp_path / "notes.png"
    notes.write_text("no picture")
    with pytest.raises(OutputError, match="expected a free name"):
        draw_sweep(MIXED, notes)
    assert notes.read_text() == "no picture"
