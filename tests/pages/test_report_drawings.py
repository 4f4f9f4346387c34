"""Curves as SVG: points where they belong, gaps, crosses, round ticks, and texts as texts.

Attention as SVG: each weight in its cell, what is hidden told apart, and the tokens named.
"""

import math
import re

import numpy as np
import pytest

from npformer.pages.report_drawings import (
    HEIGHT,
    LEVELS,
    WIDTH,
    Chart,
    Line,
    attention_figures,
    chart_figure,
    in_percent,
    short,
    title_of,
    token_label,
)
from npformer.training.attention_example import AttentionExample


def drawn(*lines, **options):
    return chart_figure(Chart("A <title>", lines, short, **options))


def line(*values, **options):
    """The chart of one line, a value for each step."""
    return drawn(Line("loss", 0, range(1, len(values) + 1), values), **options)


def points(svg):
    """The points of the first line."""
    path = re.search(r'<g class="line [^"]*"><path d="([^"]*)"', svg)
    return [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path[1])]


def ticks(svg):
    return [float(text) for text in re.findall(r'text-anchor="end">([\d.e+-]+)</text>', svg)]


def test_values_stand_where_the_ticks_say():
    svg = line(0.0, 4.0, 2.0)
    (_, low), (_, high), (_, middle) = points(svg)
    assert low > middle > high
    assert middle == pytest.approx((low + high) / 2, abs=0.2)
    grid = [float(y) for y in re.findall(r'class="grid" d="M\d+ ([\d.]+)H', svg)]
    assert ticks(svg)[:5] == [0, 1, 2, 3, 4]
    assert (grid[0], grid[4]) == (low, high)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points(svg))


def test_equal_ratios_are_equally_high_on_a_logarithmic_axis():
    (_, a), (_, b), (_, c) = points(line(1.0, 0.1, 0.01, log=True))
    assert b - a == pytest.approx(c - b, abs=0.2)


@pytest.mark.parametrize("values", [(-2.0, 4.0), (0.0, 4.0), (-3.0, -1.0)])
def test_the_lowest_value_lies_on_the_axis(values):
    """The axis begins at 0, or at the lowest value if that is negative."""
    svg = line(*values)
    (_, low), _ = points(svg)
    assert re.findall(r'class="axis" d="M\d+ ([\d.]+)H', svg) == [f"{low:g}"]


def test_the_lowest_value_lies_just_above_a_logarithmic_axis():
    (_, high), (_, low) = points(line(100.0, 0.01, log=True))
    assert low == pytest.approx(170 + 10 - 170 * math.log(1.15) / math.log(1e4 * 1.15**2), abs=0.1)
    assert high == pytest.approx(10 + 170 * math.log(1.15) / math.log(1e4 * 1.15**2), abs=0.1)


def test_a_curve_of_one_point_has_a_dot():
    assert line(2.0).count("<circle") == 1
    assert line(2.0, 3.0).count("<circle") == 0
    assert drawn(Line("loss", 0, [1, 2], [2.0, 3.0], dots=True)).count("<circle") == 3, "and one in the legend"


@pytest.mark.parametrize("values", [[2.0, 3.3], [0.5, 1.1], [1e-4, 20.0], [0.7, 0.7], [1e-9, 1e9]])
def test_any_axis_has_some_ticks(values):
    svg = line(*values, log=True)
    assert 3 <= len(ticks(svg)) <= 10


def test_what_is_not_finite_is_a_gap_and_a_cross():
    svg = line(1.0, math.nan, 2.0, math.inf)
    assert len(re.findall("M", re.search(r'<g class="line [^"]*"><path d="([^"]*)"', svg)[1])) == 2
    assert svg.count('class="cross"') == 2
    assert "not finite" in svg
    assert line(math.nan) == ""
    assert drawn() == ""


def test_texts_are_texts():
    svg = drawn(Line("<script>\u202e", 0, [1], [1.0]), marks=[(1.0, "<b>")])
    assert "<script>" not in svg
    assert "<b>" not in svg.replace(" <b>1</b>", "")
    assert "A &lt;title&gt;" in svg
    assert "\\u202e" in svg


def test_shares_lose_a_last_zero_and_less_than_all_is_not_all():
    assert [in_percent(share) for share in (1.0, 0.9996, 0.5, 0.357)] == ["100 %", "99.9 %", "50 %", "35.7 %"]


def figures(weights, source=("a", "b", "<i>"), target=("[BOS]", "x")):
    return attention_figures(AttentionExample(weights, list(source), list(target), "abc → x"))


def squares(svg, kind):
    """(row, column) -> opacity of the cells of a class."""
    found = {}
    for opacity, path in re.findall(rf'<path class="{kind}"(?: fill-opacity="([\d.]+)")? d="([^"]*)"', svg):
        found |= {(int(i), int(j)): float(opacity or 0) for j, i in re.findall(r"M(\d+) (\d+)h1v1h-1z", path)}
    return found


def test_each_weight_is_in_its_cell_and_zeros_are_told_apart():
    weights = np.array([[[0.25, 0.75, 0.0], [1.0, 0.0, 1e-4]]])
    svg = figures({"decoder.layers.1.cross_attention": weights})
    shown = squares(svg, "weight")
    assert shown == {(0, 0): 0.25, (0, 1): 0.75, (1, 0): 1.0}
    assert set(squares(svg, "hidden")) == {(0, 2), (1, 1)}
    rounded = {place: round(weights[0][place] * LEVELS) / LEVELS for place in shown}
    assert shown == pytest.approx(rounded)


def test_queries_and_keys_are_named_and_heads_counted():
    svg = figures({"decoder.layers.1.cross_attention": np.full((3, 2, 3), 1 / 3)})
    assert svg.count("<svg") == 3
    assert "head 3" in svg
    assert "decoder 2 · cross-attention" in svg
    assert "target tokens, down, read source tokens, across" in svg
    assert svg.count(">[BOS]</text>") == 3
    assert ">&lt;i&gt;</text>" in svg
    assert "<i>" not in svg
    assert "[BOS] to a 0.33" in svg


def test_a_token_is_named_beside_its_row_and_below_its_column():
    svg = figures({"layers.0.self_attention": np.full((1, 3, 3), 1 / 3)}, "abc", "abc")
    cell = float(re.search(r"scale\((\d+)\)", svg)[1])
    left, top = map(float, re.search(r"translate\((\d+) (\d+)\) scale", svg).groups())
    rows = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="end">[abc]<', svg)]
    columns = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">[abc]<', svg)]
    assert rows == [top + cell * (i + 0.5) + 3.5 for i in range(3)], "half the height of a letter below the middle"
    assert columns == [left + cell * (i + 0.5) for i in range(3)]


def test_an_encoder_reads_its_own_tokens():
    svg = figures({"encoder.layers.0.self_attention": np.full((1, 3, 3), 1 / 3)})
    assert "[BOS]" not in svg
    assert "source tokens read each other" in svg


def test_a_long_sequence_names_only_some_tokens():
    tokens = [f"t{i}" for i in range(40)]
    svg = figures({"layers.0.self_attention": np.full((1, 40, 40), 1 / 40)}, tokens, tokens)
    assert 20 <= svg.count("</text>") <= 41
    width = int(re.search(r'width="(\d+)"', svg)[1])
    assert width <= 358, "it fits on a narrow screen"


def test_names():
    assert title_of("layers.3.self_attention") == "layer 4 · self-attention"
    assert title_of("mine") == "mine"
    assert [token_label(token) for token in (" ", "\n", "abcdefghijkl")] == ["␣", "\\n", "abcdefgh…"]
