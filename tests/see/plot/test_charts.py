"""Charts: points where they belong, gaps, crosses, round ticks, names below; maps of similarity; and profiles.

A profile: bars as long as times, ceilings inside them, every text within the picture.
"""

import math
import re
from itertools import pairwise

import numpy as np
import pytest

from examples.experiments.similarity import similarity_drawing
from npformer.see.plot.charts import WIDTH, Chart, Curve, chart_drawing, in_percent, short
from tests.see.plot.figures import expect_inside, paths, points, texts, tree
from tests.see.plot.test_attention_picture import colours

NAN = math.nan


def drawn(*curves, **options):
    return chart_drawing(Chart("title", "tokens", "ms", curves, **options))


def line(*values, **options):
    """The chart of one curve, a value for each step."""
    return drawn(Curve("loss", range(1, len(values) + 1), values, smooth=True, logged=True), **options)


def heights(drawing):
    """The heights of the first curve's points."""
    return [y for part in points(paths(drawing, "line", "c0")[0]) for _, y in part]


def scale(drawing):
    """Number of the vertical axis -> its height, as text and as place of the text."""
    labels = [each for each in tree(drawing).iter("text") if each.get("text-anchor") == "end" and each.get("x") == "43"]
    return {label.text: float(label.get("y")) - 3.5 for label in labels}


def test_values_stand_where_the_ticks_say():
    drawing = line(0.0, 4.0, 2.0)
    at = scale(drawing)
    assert list(at) == ["0", "1", "2", "3", "4"]
    assert heights(drawing) == pytest.approx([at["0"], at["4"], at["2"]], abs=0.11)
    rules = [float(y) for y in re.findall(r"M48 ([\d.]+)H", "".join(paths(drawing, "frame", "rule")))]
    assert rules == pytest.approx(list(at.values()), abs=0.11)
    assert all(0 <= x <= WIDTH for part in points(paths(drawing, "line", "c0")[0]) for x, _ in part)


def test_equal_ratios_are_equally_high_on_a_logarithmic_axis():
    drawing = line(1.0, 0.1, 0.01, log_y=True)
    a, b, c = heights(drawing)
    assert b - a == pytest.approx(c - b, abs=0.2)
    assert scale(drawing)["0.1"] == pytest.approx(b, abs=0.11)
    assert texts(drawing)[1] == "ms, log scale"


@pytest.mark.parametrize(
    ("values", "is_log"),
    [([2.0, 1.0], False), ([2.0, 0.05], True), ([2.0, 0.0], False), ([-1.0, 2.0], False), ([NAN, NAN], False)],
)
def test_the_axis_is_logarithmic_where_the_range_asks_for_it(values, is_log):
    assert (texts(line(*values, log_y=None))[1] == "ms, log scale") == is_log


def test_what_is_too_small_for_a_logarithmic_axis_is_at_its_lower_end():
    drawing = line(1.0, 0.0, 1e-3, log_y=True)
    assert max(heights(drawing)) == heights(drawing)[1]


def test_axes_start_at_zero_unless_something_lies_below():
    assert min(map(float, scale(line(5.0, 6.0)))) == 0
    assert min(map(float, scale(line(-5.0, 6.0)))) < 0
    assert list(scale(line(0.2, write=in_percent, top=1.0)))[-1] == "100 %"


def steps(drawing):
    """The numbers under the horizontal axis."""
    return [each.text for each in tree(drawing).iter("text") if each.get("text-anchor") == "middle"]


def test_a_run_that_was_continued_does_not_start_at_zero():
    assert steps(drawn(Curve("a", [100, 1000], [1.0, 1.0])))[0] == "0"
    assert steps(drawn(Curve("a", [5000, 6000], [1.0, 1.0])))[0] == "5,000"
    assert points(paths(drawn(Curve("a", [5000, 6000], [1.0, 1.0])), "line", "c0")[0])[0][0][0] == 48


def test_places_of_measurement_are_the_ticks_of_a_logarithmic_axis():
    drawing = drawn(Curve("a", [128, 512, 2048], [1.0, 2.0, 3.0]), log_x=True)
    assert steps(drawing) == ["128", "512", "2,048"]
    (across,) = points(paths(drawing, "line", "c0")[0])
    assert np.ptp(np.diff([x for x, _ in across])) < 0.2, "four times as far is as far again"


@pytest.mark.parametrize("last", [7, 400, 100_000, 12_345_678])
def test_numbers_under_the_axis_do_not_touch(last):
    drawing = drawn(Curve("a", [1, last], [1.0, 2.0]))
    expect_apart(drawing)
    expect_apart(drawn(Curve("a", [100, 101, 102, last * 1000], [1.0, 2.0, 1.0, 2.0]), log_x=True))


def expect_apart(drawing):
    labels = [each for each in tree(drawing).iter("text") if each.get("text-anchor") == "middle"]
    edges = [(float(label.get("x")), 3.1 * len(label.text)) for label in labels]
    assert len(edges) >= 2
    assert all(x + half < other - width for (x, half), (other, width) in pairwise(edges))


def test_what_is_not_finite_is_a_gap_a_cross_and_a_sentence():
    drawing = line(1.0, math.inf, 2.0, 3.0, NAN, 1e99)
    assert [len(part) for part in points(paths(drawing, "line", "c0")[0])] == [1, 2]
    assert paths(drawing, "line", "warn")[0].count("M") == 3
    assert "× loss: 3 of 6 values not finite, first at 2" in texts(drawing, "warn")
    assert "loss not finite" in texts(drawing)


def test_a_point_without_a_neighbour_does_not_vanish():
    drawing = line(*[1.0] * 30, NAN, 2.0, NAN, *[1.0] * 9)
    assert paths(drawing, "dots", "c0")[0].count("M") == 1


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [-1.0, 2.0], [5.0, 5.0], [1e-300, 1e98], [1e38, 3e38]])
@pytest.mark.parametrize("log", [None, False, True])
def test_odd_values_are_drawn(values, log):
    drawing = line(*values, log_y=log)
    assert len(heights(drawing)) == len(values)
    expect_inside(drawing)


def test_a_curve_has_dots_where_it_has_few_points_and_asks_for_them():
    def dots(count, **look):
        return sum(d.count("M") for d in paths(drawn(Curve("a", range(count), [2.0] * count, **look)), "dots", "c0"))

    assert [dots(count) for count in (1, 2, 20, 21)] == [2, 3, 21, 0], "and one beside the name"
    assert [dots(count, dots=True) for count in (20, 40, 41)] == [21, 41, 0]
    assert dots(5, faint=True) == 0


def test_no_value_is_a_gap_and_nothing_more():
    drawing = drawn(Curve("a", [1, 2, 3, 4], [1.0, NAN, 2.0, NAN]))
    assert [len(part) for part in points(paths(drawing, "line", "c0")[0])] == [1, 1]
    assert paths(drawing, "warn") == texts(drawing, "warn") == []
    assert "a" in texts(drawing), "without a last value"
    assert drawing.told == "title. "


def test_many_values_get_a_running_mean_over_them_and_the_chart_says_so():
    losses = [2.0 + (-1) ** step for step in range(200)]
    drawing = line(*losses)
    (pale,), (mean,) = (points(paths(drawing, *kinds)[0]) for kinds in (("line", "pale"), ("line", "c0")[::-1]))
    mean = points(paths(drawing, "line", "c0")[1])[0]
    assert len(pale) == 200
    assert np.ptp([y for _, y in mean][5:-5]) < 0.2 * np.ptp([y for _, y in pale])
    assert mean[-1][0] == pale[-1][0], "it ends where the values end"
    assert "pale: as logged; solid: the mean of 7 values" in texts(drawing)
    assert paths(line(*losses[:59]), "pale") == []


def test_names_and_last_values_stand_below_in_the_colours_of_their_lines():
    drawing = drawn(Curve("a", [1, 2], [1.0, 2.0]), Curve("b", [1, 2], [3.0, NAN], dashed=True, colour=5, faint=True))
    assert {"a 2", "b"} <= set(texts(drawing))
    assert len(paths(drawing, "line", "c5", "dashed", "faint")) == 2, "the curve and its key"
    assert drawing.told == "title. a: 2 at tokens 2"
    assert texts(drawing)[:2] == ["title", "ms"]


def test_marks_and_levels():
    drawing = line(0.5, 3.0, 2.0, marks=[(1.5, "<b>"), (3.0, "late")], level=1.0)
    assert {"<b>", "late"} <= set(texts(drawing))
    assert len(paths(drawing, "mark")) == 3
    assert len(paths(drawing, "mark", "warn")) == 1
    assert paths(line(0.1, 0.2, level=1.0), "mark") == [], "beyond the axes"
    expect_inside(drawing)


def test_everything_stays_inside_the_picture():
    curves = [Curve(f"a rather long name {i} " * (1 + 4 * i), [1, 2], [1.0, 10.0**i]) for i in range(4)]
    for log in (False, True):
        drawing = drawn(*curves, log_y=log)
        expect_inside(drawing)
        keys = [each for each in tree(drawing).iter("text") if each.text and each.text.startswith("a rather")]
        assert len({key.get("y") for key in keys}) >= 3


def test_shares_lose_a_last_zero_and_less_than_all_is_not_all():
    assert [in_percent(share) for share in (1.0, 0.9996, 0.5, 0.357)] == ["100 %", "99.9 %", "50 %", "35.7 %"]
    assert [short(value) for value in (0.12345, 1234.5, 2e7, 1e-5, NAN)] == [
        "0.123",
        "1,234",
        "2e7",
        "1e-5",
        "not finite",
    ]


def test_a_map_has_its_groups_and_its_numbers():
    matrix = np.ones((4, 4)) - 2 * np.eye(4)
    drawing = similarity_drawing("after", matrix, ["Jan", "Jan", "Jan", "Feb"])
    assert texts(drawing) == ["after", "Jan", "Feb"]
    shown = colours(drawing)
    assert {place for place, colour in shown.items() if colour == 1.0} == set(zip(*np.nonzero(matrix > 0), strict=True))
    assert len(shown) == 12, "what points away is shown as 0"
    names = [float(each.get("y")) - 3.5 for each in tree(drawing).iter("text")][1:]
    assert names == [20 + 75 * 1.5, 20 + 75 * 3.5]
    assert "M60 245h300" in paths(drawing, "frame")[0], "after the third word"
