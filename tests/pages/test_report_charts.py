"""Curves as SVG: points where they belong, gaps, crosses, round ticks, and texts as texts."""

import math
import re

import pytest

from npformer.pages.report_charts import HEIGHT, WIDTH, Chart, Line, chart_figure, in_percent, short


def drawn(*lines, **options):
    return chart_figure(Chart("A <title>", lines, short, **options))


def points(svg):
    """The points of the first line."""
    path = re.search(r'<g class="line [^"]*"><path d="([^"]*)"', svg)
    return [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path[1])]


def ticks(svg):
    return [float(text) for text in re.findall(r'text-anchor="end">([\d.e+-]+)</text>', svg)]


def test_values_stand_where_the_ticks_say():
    svg = drawn(Line("loss", 0, [1, 2, 3], [0.0, 4.0, 2.0]))
    (_, low), (_, high), (_, middle) = points(svg)
    assert low > middle > high
    assert middle == pytest.approx((low + high) / 2, abs=0.2)
    grid = [float(y) for y in re.findall(r'class="grid" d="M\d+ ([\d.]+)H', svg)]
    assert ticks(svg)[:5] == [0, 1, 2, 3, 4]
    assert (grid[0], grid[4]) == (low, high)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points(svg))


def test_equal_ratios_are_equally_high_on_a_logarithmic_axis():
    (_, a), (_, b), (_, c) = points(drawn(Line("loss", 0, [1, 2, 3], [1.0, 0.1, 0.01]), log=True))
    assert b - a == pytest.approx(c - b, abs=0.2)


@pytest.mark.parametrize("values", [[2.0, 3.3], [0.5, 1.1], [1e-4, 20.0], [0.7, 0.7], [1e-9, 1e9]])
def test_any_axis_has_some_ticks(values):
    svg = drawn(Line("loss", 0, [1, 2], values), log=True)
    assert 3 <= len(ticks(svg)) <= 10


def test_what_is_not_finite_is_a_gap_and_a_cross():
    svg = drawn(Line("loss", 0, [1, 2, 3, 4], [1.0, math.nan, 2.0, math.inf]))
    assert len(re.findall("M", re.search(r'<g class="line [^"]*"><path d="([^"]*)"', svg)[1])) == 2
    assert svg.count('class="cross"') == 2
    assert "not finite" in svg
    assert drawn(Line("loss", 0, [1], [math.nan])) == ""
    assert drawn() == ""


def test_texts_are_texts():
    svg = drawn(Line("<script>\u202e", 0, [1], [1.0]), marks=[(1.0, "<b>")])
    assert "<script>" not in svg
    assert "<b>" not in svg.replace(" <b>1</b>", "")
    assert "A &lt;title&gt;" in svg
    assert "\\u202e" in svg


def test_shares_lose_a_last_zero_and_less_than_all_is_not_all():
    assert [in_percent(share) for share in (1.0, 0.9996, 0.5, 0.357)] == ["100 %", "99.9 %", "50 %", "35.7 %"]
