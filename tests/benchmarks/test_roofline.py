"""The roofline: rates from times."""

import pytest

from benchmarks import roofline
from benchmarks.roofline import Roofline, measure_roofline
from tests.benchmarks.sleepers import FakeTime


@pytest.mark.parametrize("memory", [(0.125, 1.0), (1.0, 0.125)])
def test_rates_come_from_the_best_time(memory, alone, monkeypatch):
    monkeypatch.setattr(roofline, "LARGE", 16)
    monkeypatch.setattr(roofline, "STREAMED", 800)
    seconds = iter([0.25, *memory])  # a product; a copy, a change in place

    def known(work, backend):
        work()
        return next(seconds)

    monkeypatch.setattr(roofline, "_best", known)
    assert measure_roofline(alone) == Roofline(flops=4 * 2 * 16**3, bytes=8 * 2 * 800)


def test_the_best_of_several_rounds_without_the_first(alone, monkeypatch):
    clock, lengths = FakeTime(), iter([0.1, 5.0, 3.0, 4.0])
    monkeypatch.setattr("npformer.io.seconds.time", clock)
    monkeypatch.setattr(roofline, "ROUNDS", 3)

    def work():
        clock.now += next(lengths)

    assert roofline._best(work, alone) == 3.0
