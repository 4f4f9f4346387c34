"""Clocks that stand still or go back: no rate is divided by zero, no duration is negative."""

import itertools
import math

import pytest

from npformer.io import seconds

CLOCKS = {
    "stands still": lambda: itertools.repeat(7.0),
    "goes back": lambda: itertools.count(7.0, -1.0),
    "is set back now and then": lambda: itertools.cycle([5.0, 5.0, 9.0, 2.0, 2.0]),
}


@pytest.fixture(params=CLOCKS)
def clock(request, monkeypatch):
    """The system's clock, out of order."""
    ticks = CLOCKS[request.param]()
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))


def test_a_duration_is_positive_and_a_rate_finite_or_unknown(clock):
    for _ in range(20):
        began = seconds.now()
        assert seconds.since(began) > 0
        assert math.isfinite(1 / seconds.since(began))
        rate = seconds.rate(300, seconds.now())
        assert math.isnan(rate) or 0 < rate < 300


def test_a_rate_by_a_clock_that_goes_on(monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 104.0)
    assert (seconds.since(100.0), seconds.rate(300, 100.0)) == (4.0, 75.0)
