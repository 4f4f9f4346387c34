"""The roofline: rates from times."""

import math
from dataclasses import replace

import pytest

from benchmarks import roofline
from benchmarks.roofline import Roofline, measure_roofline
from npformer.backend import Pair
from tests.benchmarks.sleepers import FakeTime


@pytest.mark.parametrize("products", [(0.25, 0.75), (0.75, 0.25)])
@pytest.mark.parametrize("memory", [(0.125, 1.0), (1.0, 0.125)])
def test_rates_come_from_the_best_time(memory, products, alone, monkeypatch):
    monkeypatch.setitem(roofline.LARGE, "numpy", 16)
    seconds = iter([*products, *memory])  # a linear map's and the arrays' own; a copy, a change in place

    def known(work, backend):
        work()
        return next(seconds)

    monkeypatch.setattr(roofline, "_best", known)
    rates = measure_roofline(alone, streamed=800)
    assert rates == Roofline(flops=4 * 2 * 16**3, bytes=8 * 2 * 800)
    assert next(seconds, None) is None


def test_the_best_of_several_rounds_without_the_first(alone, monkeypatch):
    lengths = iter([0.1, 5.0, 3.0, 4.0])

    clock = FakeTime()
    monkeypatch.setattr("npformer.io.seconds.time", clock)

    def work():
        clock.now += next(lengths)

    assert roofline._best(work, alone) == 3.0
    assert next(lengths, None) is None


def test_this_machine(alone, monkeypatch):
    monkeypatch.setattr(roofline, "ENOUGH", 0.0)
    rates = measure_roofline(alone, streamed=1 << 20)
    assert 0 < rates.flops < math.inf
    assert 0 < rates.bytes < math.inf


def test_on_a_gpu_the_product_is_measured_by_the_linear_map(alone, monkeypatch):
    """In its precision, and large: here a backend that says it is CuPy's."""
    seen = []

    def forward(x, weight, bias):
        seen.append((*x.shape, *weight.shape, *bias.shape))
        return alone.ops.linear.forward(x, weight, bias)

    pretender = replace(alone, name="cupy", ops=replace(alone.ops, linear=Pair(forward, alone.ops.linear.backward)))
    monkeypatch.setattr(roofline, "ENOUGH", 0.0)
    monkeypatch.setitem(roofline.LARGE, "cupy", 16)
    monkeypatch.setitem(roofline.STREAMED, "cupy", 1 << 20)
    measure_roofline(pretender)
    assert set(seen) == {(16, 16, 16, 16, 16)}
