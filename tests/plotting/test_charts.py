"""Charts side by side: every curve is drawn, named at its end, and inside the picture; and maps of similarity.

A profile: bars as long as times, ceilings inside them, every text within the picture.
"""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from npformer.plotting import colours
from npformer.plotting.charts import Chart, Curve, charts_figure, similarity_figure
from npformer.plotting.profile import profile_figure
from npformer.training.bench import Row
from tests.plotting.figures import expect_inside, texts

NAN = float("nan")


def chart(*curves, **options):
    return Chart("title", "tokens", "milliseconds", curves, **options)


def axes_of(*curves, **options):
    """The axes of a picture of one chart."""
    return charts_figure([chart(*curves, **options)], "t").axes[0]


def test_every_chart_has_its_curves_and_their_names():
    first, second = chart(Curve("a", [1, 2], [3.0, 4.0]), Curve("b", [1, 2], [5.0, 1.0])), chart(Curve("c", [1], [2.0]))
    figure = charts_figure([first, second], "Heading", ["a note"])
    assert [texts(axes) for axes in figure.axes] == [["a", "b"], ["c"]]
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), [5.0, 1.0])
    assert texts(figure) == ["Heading", "a note"]
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("tokens", "milliseconds")


def test_names_that_would_touch_are_moved_apart():
    axes = axes_of(Curve("a", [1, 2], [1.0, 1.0]), Curve("b", [1, 2], [1.0, 1.001]))
    low, high = (text.get_position()[1] for text in axes.texts)
    assert high - low > 0.05


def test_a_curve_that_ends_before_the_others_is_named_where_it_ends():
    axes = axes_of(Curve("short", [1, 2, 3], [1.0, 2.0, NAN]), Curve("long", [1, 2, 3], [1, 1, 1]))
    (place,) = (text.xy for text in axes.texts if text.get_text() == "short")
    assert place == (2, 2.0)


def test_places_of_measurement_are_the_ticks_of_a_logarithmic_axis():
    axes = axes_of(Curve("a", [128, 512, 2048], [1.0, 2.0, 3.0]), log_x=True)
    assert axes.get_xscale() == "log"
    assert axes.get_xticks().tolist() == [128, 512, 2048]


def test_numbers_that_cannot_be_negative_start_at_zero():
    assert axes_of(Curve("a", [1, 2], [5.0, 6.0])).get_ylim()[0] == 0
    assert axes_of(Curve("a", [1, 2], [-5.0, 6.0])).get_ylim()[0] < -5


def test_noise_does_not_fill_a_logarithmic_axis():
    low, high = axes_of(Curve("a", [1, 2], [1.0, 1.01]), log_y=True).get_ylim()
    assert high / low > 7


@pytest.mark.parametrize("log", [False, True])
def test_everything_stays_inside_the_picture(log):
    curves = [Curve(f"a rather long name {i}", [1, 2], [1.0, 10.0**i]) for i in range(4)]
    figure = charts_figure([chart(*curves, log_y=log)] * 2, "A heading", ["a note that is long " * 12])
    expect_inside(figure)
    one, other = (axes.get_tightbbox() for axes in figure.axes)
    assert not one.overlaps(other)


GROUPS = ["Jan", "Jan", "Jan", "Feb"]


def test_a_map_for_each_matrix_and_a_name_for_each_group():
    maps = [("before", np.eye(4)), ("after", np.ones((4, 4)) - 2 * np.eye(4))]
    figure = similarity_figure(maps, GROUPS, "Heading", "a note")
    before, after, _ = figure.axes
    assert [before.get_title(loc="left"), after.get_title(loc="left")] == ["before", "after"]
    assert [label.get_text() for label in before.get_yticklabels()] == ["Jan", "Feb"]
    assert before.get_yticks().tolist() == [1.0, 3.0]
    assert [line.get_ydata()[0] for line in before.lines if line.get_xdata()[0] == 0] == [2.5]
    assert after.images[0].get_array().min() == 0, "what points away is shown as 0"


def test_nothing_overlaps_the_colour_bar():
    figure = similarity_figure([("a", np.eye(4)), ("b", np.eye(4))], GROUPS, "t", "note")
    figure.canvas.draw()
    box = figure.axes[-1].get_tightbbox()
    assert all(not box.overlaps(axes.get_tightbbox()) for axes in figure.axes[:-1])


def row(op, direction, seconds, bound, by, share):
    return Row(op, direction, 1, seconds, 0.0, 0.0, bound, by, share)


ROWS = [
    row("linear", "backward", 0.004, 0.003, "products", 0.4),
    row("softmax", "forward", 0.003, 0.006, "memory", 0.3),
    row("linear", "forward", 0.002, 0.001, "products", 0.2),
    row("layers, in Python", "between", 0.001, 0.0, None, 0.1),
    row("relu", "backward", 1e-6, 0.0, "memory", 1e-4),
]


def test_bars_their_ceilings_and_their_order():
    (axes,) = profile_figure(ROWS, "t").axes
    bars = [(round(bar.get_width(), 9), to_hex(bar.get_facecolor()).upper()) for bar in axes.patches]
    solid = [bar for bar in bars if bar[1] in (colours.TRAINING, colours.HELD_OUT)]
    assert [width for width, _ in bars] == [2, 1, 4, 3, 3, 3, 1]  # milliseconds, each then its ceiling
    assert solid == [(1, colours.TRAINING), (3, colours.HELD_OUT), (3, colours.TRAINING)]  # never beyond the bar
    heights = [bar.get_y() for bar in axes.patches]
    assert heights == sorted(heights)
    assert axes.get_ylim()[0] > axes.get_ylim()[1] == 0  # downwards


def test_names_and_numbers():
    figure = profile_figure(ROWS, "A title", ["a note"])
    found = texts(figure.axes[0])
    assert [text for text in found if text in {row.op for row in ROWS}] == ["linear", "softmax", "layers, in Python"]
    assert "2.00 ms · 20.0 % · 50 % of its ceiling, products" in found
    assert "3.00 ms · 30.0 % · 200 % of its ceiling, memory" in found
    assert "1.00 ms · 10.0 %" in found
    assert {"forward", "backward"} <= set(found)
    assert "(1 below 0.1 % left out)" in figure.axes[0].get_xlabel()
    assert texts(figure) == ["A title", "a note"]


def test_no_part_of_a_profile_sticks_out():
    dear = [row("sinusoidal_positions", "backward", 12.345, 12.345, "products", 0.999)]
    figure = profile_figure([*dear, *ROWS], "A training step's 12,345.6 ms", ["a long note " * 40])
    expect_inside(figure)
    assert figure.axes[0].xaxis.get_major_formatter()(10000) == "10,000"
