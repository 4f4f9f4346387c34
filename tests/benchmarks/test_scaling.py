"""A complete run over small sizes, and its report."""

import pytest

from benchmarks import scaling
from benchmarks.growth import kept_bytes
from benchmarks.products import step_flop
from npformer.models.presets import Preset


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
