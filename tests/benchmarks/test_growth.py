"""Fitted exponents, and the counts that they are compared with."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import npformer as npf
from benchmarks.growth import NEAR, Growth, exponent, growth, kept_bytes, parameters
from npformer.layers import RandomKey
from npformer.models.presets import PRESETS, Preset

SIZES = [Preset(7, 12, 3, 1, 20, 5, 2), PRESETS["small"], Preset(30, 8, 2, 3, 8, 6, 3)]


@pytest.mark.parametrize("power", [0.0, 1.0, 1.37, 2.0])
def test_the_exponent_of_a_power_is_found(power):
    x = [3.0, 10.0, 70.0]
    assert exponent(x, [5 * each**power for each in x]) == pytest.approx(power)


def test_an_outlier_is_outvoted():
    x = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert exponent(x, [1.0, 2.0, 5.0, 8.0, 16.0]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("count", "upper"), [(2, 2), (3, 2), (5, 3), (6, 4), (7, 4)])
def test_the_upper_half_counts(count, upper):
    """Constant in the lower half, quadratic in the upper half."""
    values = [2.0**i for i in range(count)]
    start = values[count - upper]
    found = growth(values, [max(value, start) ** 2 for value in values], values, 2.0)
    assert found == pytest.approx((2.0, 1.0, 2.0))


@pytest.mark.parametrize(
    ("measured", "counted", "limit", "verdict"),
    [
        (1.0, 1.0, 1.0, "as it should"),
        (1.0 + NEAR - 0.01, 1.0, 1.0, "as it should"),
        (1.0 + NEAR + 0.01, 1.0, 1.0, "FASTER THAN IT SHOULD"),
        (1.0 - NEAR - 0.01, 1.0, 1.0, "more slowly than counted"),
        (1.7, 1.4, 2.0, "as it should; the fastest-growing term costs more"),
        (2.2, 1.4, 2.0, "FASTER THAN IT SHOULD"),
        (1.2, 1.2, 1.0, "as it should"),
        (1.1, 0.9, 1.0, "as it should; the fastest-growing term costs more"),
    ],
)
def test_the_verdict(measured, counted, limit, verdict):
    assert Growth(measured, counted, limit).verdict == verdict


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_parameters_are_counted(size):
    model = npf.Transformer(size.config(), backend=npf.get_backend("numpy", kernels="plain"))
    assert parameters(size) == sum(segment.stop - segment.start for segment in model.arena.segments)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(
    "size",
    [Preset(8, 64, 2, 6, 64, 32, 32), Preset(8, 32, 8, 3, 64, 128, 4), Preset(900, 32, 2, 1, 32, 32, 32)],
    ids=str,
)
def test_a_step_keeps_what_is_counted(size, recompute):
    """Forward with dropout and backward, in a new thread, which has a workspace of its own."""
    pytest.importorskip("numba", reason="the count is that of compiled kernels")
    backend = npf.get_backend("numpy", kernels="numba", threads=1)
    model = npf.Transformer(replace(size.config(0.1), recompute=recompute), backend=backend)
    src, tgt_in, tgt_out = size.example_batch()

    def step():
        logits, cache = model.forward(src, tgt_in, key=RandomKey(0, 1))
        _, loss_cache = model.ops.cross_entropy.forward(logits, tgt_out, 0, 0.0)
        model.backward(model.ops.cross_entropy.backward(1.0, loss_cache), cache)
        return tracemalloc.get_traced_memory()[1]

    step()  # loads and caches everything that is set up once
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(step).result()
    finally:
        tracemalloc.stop()
    counted = kept_bytes(size, 1, recompute) - 4 * 4 * parameters(size)  # without memory that exists before a step
    most = 1.45 if recompute else 1.35  # the rest is temporary memory of operations
    assert 1 < found / counted < most


def test_further_threads_keep_gradients_of_their_own():
    assert kept_bytes(SIZES[0], 3) - kept_bytes(SIZES[0], 1) == 2 * 4 * parameters(SIZES[0])
