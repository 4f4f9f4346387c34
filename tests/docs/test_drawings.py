"""Losses as drawings, and arrays as tables."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from docs.site.curves import curves, thumbnail
from docs.site.matrices import number, tables, versus
from tests.plotting import figures
from tests.plotting.figures import paths


def points(svg, name):
    (line, *_) = paths(svg, name)
    (found,) = figures.points(line)
    return found


@pytest.mark.parametrize("right", [[2.0, 1.0, 0.5, 0.4, 0.3], [2.0, 0.1, 0.01, 0.002, 0.001]])
def test_a_higher_loss_is_drawn_higher_and_a_broken_run_ends_in_a_cross(right):
    svg = curves(right, [2.0, 2.1, None, None, None], 50, "said")
    ElementTree.fromstring(svg)
    falling = [y for _, y in points(svg, "right")]
    assert falling == sorted(falling)
    assert len(set(falling)) == 5
    assert len(points(svg, "wrong")) == 2
    assert [len(paths(svg, name)) for name in ("right", "wrong")] == [1, 2], "a line, and a cross"
    assert points(svg, "right")[0] == points(svg, "wrong")[0]
    names = re.findall(r'y="([\d.]+)" class="name \w+"', svg)
    assert abs(float(names[0]) - float(names[1])) >= 14


def test_equal_losses_can_be_drawn():
    for svg in (curves([1.0] * 5, [1.0] * 5, 5, "said"), thumbnail([1.0] * 5, [None] * 5, 5)):
        ElementTree.fromstring(svg)
        assert len(points(svg, "right")) == 5
        assert len({y for _, y in points(svg, "right")}) == 1, "a flat line"


def test_an_array_as_tables():
    array = np.array([[[1.0, -0.5], [0.0, 0.004]], [[0.25, 0.0], [1e-9, -1.0]]])
    text = tables(array, "dx<", [["a", "b"], ["c", "<pad>"]])
    ElementTree.fromstring(text)
    assert re.findall(r'<td class="(\w+)">([^<]*)</td>', text) == [
        ("p6", "1.00"), ("n3", "−0.50"), ("z", "0"), ("p1", "4e−3"),
        ("p2", "0.25"), ("z", "0"), ("p1", "1e−9"), ("n6", "−1.00"),
    ]  # fmt: skip
    assert re.findall(r"<th>(.*?)</th>", text) == ["a", "b", "c", "&lt;pad&gt;"]
    assert re.findall(r"<caption>(.*?)</caption>", text) == ["row 0", "row 1"]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 2, 3), (2, 2, 2, 3)])
def test_arrays_of_every_rank(shape):
    text = tables(np.ones(shape), "x")
    ElementTree.fromstring(text)
    assert text.count("<td") == np.ones(shape).size


def test_numbers_are_short():
    assert [number(x) for x in (12.345, -0.0314, 0.00499, -1.24e-7)] == ["12.35", "−0.03", "5e−3", "−1e−7"]
    assert [number(x) for x in (-1900.0, 2.7e43, np.nan, np.inf, -np.inf)] == ["−1900", "3e43", "NaN", "∞", "−∞"]


def test_an_array_without_a_bug_and_with_it():
    right = np.arange(16.0).reshape(2, 2, 4)
    wrong = right.copy()
    wrong[1, 0, 2], wrong[1, 1, 0], wrong[1, 1, 3] = -20.0, np.nan, right[1, 1, 3] + 1e-14
    shown = versus(right, wrong, "dx")
    for text in shown:
        ElementTree.fromstring(text)
        assert re.findall("<caption>(.*?)</caption>", text) == ["row 1"], "the matrix with the largest difference"
        framed = [" d" in each for each in re.findall(r'<td class="([^"]*)">', text)]
        assert framed == [False, False, True, False, True, False, False, False]
    assert '<td class="x d">NaN</td>' in shown[1]
    assert '<td class="p3 d">10.00</td>' in shown[0], "both sides have the same colours"
    assert versus(None, wrong[1, 0], "dx")[0] == ""
    assert " d" not in versus(np.ones(()), np.ones(2), "dx")[1]
    same = versus(np.array(np.nan), np.array(np.nan), "loss")
    assert same[0] == same[1]
