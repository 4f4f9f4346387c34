"""Shares in percent: rounded to the nearest, and only the whole is 100 %."""

import math

import pytest

from npformer.io.percent import percent


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.0 %"), (1 / 3, "33.3 %"), (2 / 3, "66.7 %"), (0.29, "29.0 %"), (0.9994, "99.9 %"), (0.9996, "99.9 %"),
     (1.0, "100.0 %"), (1.5, "150.0 %"), (-0.01, "-1.0 %"), (-0.0004, "0.0 %"), (math.nan, "nan %"),
     (math.inf, "inf %")],
)  # fmt: skip
def test_a_share(share, text):
    assert percent(share) == text


def test_less_than_the_whole_is_not_shown_as_the_whole():
    assert [percent(0.9999, digits) for digits in (0, 1, 2)] == ["99 %", "99.9 %", "99.99 %"]
    assert percent(1 - 1e-8, 2) == "99.99 %"
    assert percent(sum([0.1] * 10), 2) == "100.00 %", "which is less than 1 by rounding alone"
    assert all(percent(n / 200) == f"{n / 2:.1f} %" for n in range(201))
