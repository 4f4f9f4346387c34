"""A complete run over small sizes, and its report; fitted exponents, and the counts that they are compared with."""

import math
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import npformer as npf
from benchmarks import scaling
from benchmarks.own import products as own_products
from benchmarks.own.products import products
from benchmarks.products import attention_flop, linear_flop, linears, step_flop
from benchmarks.scaling import NEAR, Growth, exponent, growth, kept_bytes, parameters
from npformer.backend import PLAIN
from npformer.functional.arrays import namespace
from npformer.layers import RandomKey
from npformer.models.presets import PRESETS, Preset


@pytest.fixture(scope="module")
def document(run):
    """The JSON document of a quick run of two sweeps."""
    return run("scaling --quick --json --sweep T,depth --kernels plain").fine().document


def test_every_point_has_its_time_its_memory_and_their_counts(document):
    assert (document["benchmark"], document["settings"]["quick"]) == ("scaling", True)
    for result, (sweep, field) in zip(document["results"], [("T", "length"), ("depth", "num_layers")], strict=True):
        assert (result["sweep"], result["kernels"]) == (sweep, "plain")
        assert [point["value"] for point in result["points"]] == list(scaling.QUICK_SWEEPS[sweep])
        for point in result["points"]:
            assert point["shape"][field] == point["value"]
            size = Preset(**point["shape"])
            assert size == scaling.varied(scaling.QUICK_BASE, sweep, point["value"])
            assert point["flop"] == step_flop(size)
            assert point["kept_bytes"] >= kept_bytes(size, 1)
            assert 0 < point["best"] <= point["median"]
            assert scaling.PAGE <= point["model_bytes"] < point["peak_bytes"] < 1e9
    lengths = [point["model_bytes"] for point in document["results"][0]["points"]]
    assert lengths[-1] > 1.5 * lengths[0], "the memory belongs to the model"


def test_a_size_is_measured_once(document):
    """The base configuration is a point of every sweep."""
    first, second = (
        next(point for point in result["points"] if Preset(**point["shape"]) == scaling.QUICK_BASE)
        for result in document["results"]
    )
    assert first["round_medians"] == second["round_medians"]


def test_the_report_is_a_table_and_a_line_for_each_cost(document):
    lines = scaling.describe(document["results"][0]).splitlines()
    assert lines[0] == "T, plain kernels"
    assert [line.split()[0] for line in lines[1:4]] == ["T", "32", "128"]
    assert lines[4].startswith("time grows as T^")
    assert lines[5].startswith("memory grows as T^")


@pytest.mark.parametrize("power", [0.5, 1.0, 1.7, 3.0])
@pytest.mark.parametrize("sweep", scaling.SWEEPS)
def test_a_report_is_at_most_100_columns_wide_on_the_slowest_machine(sweep, power):
    found = scaling.summed_up(sweep, "plain", [point(value, 20 * value**power, 0.99) for value in (1, 2, 4, 8)])
    assert max(map(len, scaling.describe(found).splitlines())) <= 100


def point(value, median, others=0.0):
    """As far as the summary goes: products linear in value, memory at rest."""
    made = {"value": value, "median": median, "best": median, "flop": 1e9 * value, "steps": 3, "rounds": 3}
    return made | {"model_bytes": 10**6, "kept_bytes": 10**6 * value, "others_share": others}


def test_a_cost_that_grows_too_fast_is_named():
    found = scaling.summed_up("batch", "plain", [point(value, value**1.5) for value in (1, 2, 4, 8)])
    assert found["time"] == {
        "measured": pytest.approx(1.5),
        "counted": pytest.approx(1.0),
        "limit": 1,
        "verdict": "FASTER THAN IT SHOULD",
    }
    assert "time grows as batch^1.50, GFLOP as batch^1.00: FASTER THAN IT SHOULD" in scaling.describe(found)
    assert "memory grows as batch^0.00, kept MB as batch^1.00: more slowly than counted" in scaling.describe(found)


def test_other_processes_are_named_where_they_were_worst():
    points = [point(1, 1.0, 0.15), point(2, 1.0, 0.3), point(4, 1.0, None)]
    assert scaling.disturbed(points) == ["DISTURBED: at 2 other processes used 30 % of the cores: measure again later"]
    assert scaling.disturbed(points[2:]) == []


def test_width_takes_the_feed_forward_along():
    wide = scaling.varied(scaling.BASE, "width", 1024)
    assert (wide.d_model, wide.d_ff, wide.num_heads) == (1024, 4096, scaling.BASE.num_heads)
    assert scaling.varied(scaling.BASE, "batch", 8) == scaling.BASE


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


def counted_step(size, backend, recompute, monkeypatch):
    """The operations of all products in a step of the plain pairs."""
    found = []
    multiply = np.matmul

    def counting(a, b):
        product = multiply(a, b)
        found.append(2 * math.prod(product.shape) * a.shape[-1])
        return product

    config = replace(size.config(0.0), recompute=recompute)
    model = npf.Transformer(config, backend=replace(backend, ops=PLAIN))
    src, tgt_in, tgt_out = size.example_batch()
    monkeypatch.setattr(namespace(np.ones(1)), "matmul", counting)
    logits, cache = model.forward(src, tgt_in)
    _, loss_cache = PLAIN.cross_entropy.forward(logits, tgt_out, 0, 0.0)
    model.backward(PLAIN.cross_entropy.backward(1.0, loss_cache), cache)
    return sum(found)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("size", [Preset(7, 12, 3, 1, 20, 5, 2), Preset(11, 8, 2, 3, 8, 6, 3)], ids=str)
def test_the_count_is_that_of_a_real_step(size, recompute, numpy64, monkeypatch):
    one_hot = 2 * 2 * size.batch * size.length * size.vocab_size * size.d_model  # the plain embedding's gradients
    assert counted_step(size, numpy64, recompute, monkeypatch) == step_flop(size, recompute) + one_hot


def test_the_parts_add_up():
    size = PRESETS["mid"]
    assert step_flop(size) == linear_flop(size) + attention_flop(size)
    assert 70e9 < step_flop(size) < 85e9


@pytest.mark.parametrize("split", [False, True])
def test_every_product_is_timed_three_for_each_linear_map(split, monkeypatch):
    monkeypatch.setattr(own_products, "FLOP_PER_TURN", 1.0)  # once: the time does not matter here
    seconds = products("tiny", split).task("products")()
    assert len(seconds) == 3 * len(linears(PRESETS["tiny"]))
    assert min(seconds) > 0
