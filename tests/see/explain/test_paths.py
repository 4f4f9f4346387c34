"""The ways through residual sums: all of them, against the same ways by closing branches; a search where many are."""

import numpy as np
import pytest

from npformer.check.cases.case import shaken
from npformer.layers import EncoderLayer, Layer
from npformer.see.explain import Setting, session
from npformer.see.explain import paths as module
from npformer.see.explain.number import find
from npformer.see.explain.paths import PAST, THROUGH, Gates, paths
from npformer.see.record.models import model_setting
from tests.check.functions import normal


def paths_to(opened, at):
    """The number at a place, and the ways to it."""
    place = find(opened, at)
    value = place.gradient(opened)
    return value, paths(opened, place, value)


@pytest.mark.parametrize("at", ["encoder.layers.0.norm1.gamma[1]", "src_embedding.weight[4,2]"])
@pytest.mark.parametrize("fixture", ["opened", "pre"])
def test_the_ways_are_those_of_closed_branches(request, fixture, at):
    """With every sum set to one of its branches, what is left is the way with these choices, and its beginnings."""
    opened = request.getfixturevalue(fixture)
    place = find(opened, at)
    _, paths = paths_to(opened, at)
    assert len(paths.ways) > 3
    rng = np.random.default_rng(1)
    for _ in range(6):
        choices = {n: (PAST, THROUGH)[rng.integers(2)] for n in range(len(paths.sums))}
        gates = {paths.sums[n].call.number: (branch == PAST, branch == THROUGH) for n, branch in choices.items()}
        left = place.gradient(opened, Gates(gates))
        value = sum(way.value for way in paths.ways if all(choices[n] == branch for n, branch in way.choices))
        assert left == pytest.approx(value, rel=1e-9, abs=1e-15)


def test_a_way_to_the_encoder_leaves_the_decoder_through_cross_attention(opened):
    _, paths = paths_to(opened, "encoder.layers.0.feed_forward.down.weight[1,2]")
    names = [each.name for each in paths.sums]
    assert names[:2] == ["decoder.layers.0.feed_forward", "decoder.layers.0.cross_attention"]
    assert "decoder.layers.0.self_attention" not in names
    crossing = names.index("decoder.layers.0.cross_attention")
    assert all((crossing, THROUGH) in way.choices for way in paths.ways)
    assert paths.sums[crossing].past == 0


def test_the_gain_of_a_sums_own_norm_ends_its_ways_before_the_sum(opened):
    _, paths = paths_to(opened, "decoder.layers.0.norm2.gamma[0]")
    assert [each.name for each in paths.sums] == ["decoder.layers.0.feed_forward"]
    assert {way.choices for way in paths.ways} == {((0, PAST),), ((0, THROUGH),)}


class SharedLayer(Layer):
    """An encoder layer applied to its own output: a gain of its norms is used in two sums."""

    def __init__(self, backend):
        super().__init__(backend)
        self.layer = shaken(EncoderLayer(4, 2, 6, backend=backend))

    def forward(self, x):
        y, first = self.layer.forward(x)
        z, second = self.layer.forward(y)
        return z, (first, second)

    def backward(self, dz, cache):
        return self.layer.backward(self.layer.backward(dz, cache[1]), cache[0])


def test_a_gain_that_is_used_in_several_sums_counts_once_for_each_way(numpy64):
    with session(Setting("shared", SharedLayer(numpy64), (normal(2, 3, 4),))) as shared:
        value, paths = paths_to(shared, "layer.norm1.gamma[1]")
    assert len(paths.sums) == 3
    assert sum(way.value for way in paths.ways) == pytest.approx(value, rel=1e-12)
    assert () not in {way.choices for way in paths.ways}


def test_no_sum_lies_before_the_last_map(opened):
    value, paths = paths_to(opened, "generator.weight[1,2]")
    assert (paths.sums, paths.ways[0].value, paths.exact) == ((), value, True)


def test_with_many_sums_the_strongest_ways_are_found_and_the_rest_is_said(monkeypatch):
    with session(model_setting("transformer-deep")) as deep:
        value, every = paths_to(deep, "src_embedding.weight[4,2]")
        assert (every.exact, every.remainder) == (True, 0.0)
        monkeypatch.setattr(module, "EXACT", 3)
        monkeypatch.setattr(module, "MOST_RUNS", 60)
        _, some = paths_to(deep, "src_embedding.weight[4,2]")
    assert not some.exact
    assert 1 <= len(some.ways) < len(every.ways)
    assert sum(way.value for way in some.ways) + some.remainder == pytest.approx(value, rel=1e-12)
    known = {way.choices: way.value for way in every.ways}
    assert all(known[way.choices] == pytest.approx(way.value, rel=1e-9) for way in some.ways)
