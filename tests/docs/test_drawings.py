"""Arrays as tables."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from docs.site.matrices import number, tables


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
    assert [number(x) for x in (-1900.0, 2.7e43)] == ["−1900", "3e43"]
