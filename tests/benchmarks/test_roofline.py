"""The roofline: rates from times, and which of the two bounds is nearer."""

import math
from dataclasses import replace

import pytest

from benchmarks import roofline
from benchmarks.roofline import LARGE, Roofline, measure_roofline
from npformer.backend import Pair
from tests.benchmarks.sleepers import FakeTime


@pytest.mark.parametrize("products_of_16", [(0.25, 0.75), (0.75, 0.25)])
@pytest.mark.parametrize("memory", [(0.125, 1.0), (1.0, 0.125)])
def test_rates_come_from_the_best_time(memory, products_of_16, alone, monkeypatch):
    monkeypatch.setitem(roofline.LARGE, "numpy", 8)
    products = [0.5, 0.5, 0.5, 0.5, *products_of_16]  # of 8, of (3, 4, 5): a linear map's and the arrays' own
    seconds = iter([*products, *memory])  # a copy, a change in place

    def known(work, backend):
        work()
        return next(seconds)

    monkeypatch.setattr(roofline, "_best", known)
    rates = measure_roofline(alone, [(3, 4, 5), (16, 16, 16)], streamed=800)
    assert rates == Roofline(flops=4 * 2 * 16**3, bytes=8 * 2 * 800, shape=(16, 16, 16))
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
    rates = measure_roofline(alone, [(2, 2, 2)], streamed=1 << 20)
    assert rates.shape == (LARGE["numpy"],) * 3
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
    assert measure_roofline(pretender, [(2, 3, 4)]).shape in ((16, 16, 16), (2, 3, 4))
    assert set(seen) == {(16, 16, 16, 16, 16), (2, 3, 3, 4, 4)}


def test_the_nearer_ceiling():
    at = Roofline(flops=100.0, bytes=10.0, shape=(1, 1, 1))
    assert at.bound(200.0, 10.0) == (2.0, "products")
    assert at.bound(100.0, 30.0) == (3.0, "memory")
    assert at.bound(0.0, 0.0) == (0.0, "memory")
