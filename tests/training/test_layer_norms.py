"""What evaluations log by layer: norms of gradients and updates, saturated attention, dead units."""

import math

import numpy as np
import pytest

from npformer.backend import Arena, get_backend
from npformer.layers import Parameter
from npformer.optim import clip_by_global_norm
from npformer.see.record.models import showcase_model
from npformer.training.layer_norms import layer_norms, look_inside, part_of, update_ratios


@pytest.fixture
def arena():
    """Three parts with gradients of norm 3, 4 and 12, and a frozen one."""
    backend = get_backend("numpy", kernels="plain")
    names = ["encoder.layers.0.norm1.gamma", "encoder.layers.0.norm1.beta", "generator.bias", "a.b.weight", "frozen.w"]
    arena = Arena([(name, Parameter(name, backend.zeros((4,))), ()) for name in names], backend)
    arena.configure("frozen", trainable=False)
    for segment, number in zip(arena.segments, (1.0, math.sqrt(5 / 4), 2.0, 6.0, 99.0), strict=True):
        arena.view(arena.grads, segment)[...] = number
    return arena


def test_parts_are_sub_layers_or_what_has_parameters_itself():
    assert part_of("decoder.layers.11.cross_attention.qkv.weight") == "decoder.layers.11.cross_attention"
    assert part_of("encoder.layers.0.norm1.beta") == "encoder.layers.0.norm1"
    assert part_of("generator.weight") == "generator"
    assert part_of("encoder.norm.gamma") == "encoder.norm"
    assert part_of("scale") == "scale"


def test_the_norms_of_parameters_add_up_to_those_of_parts_and_these_to_the_whole(arena):
    norms = layer_norms(arena, None)
    assert list(norms) == ["encoder.layers.0.norm1", "generator", "a.b"]
    assert list(norms.values()) == pytest.approx([3.0, 4.0, 12.0], rel=1e-7)


def test_they_are_those_before_clipping_wherever_it_was_done(arena):
    before = layer_norms(arena, 13.0)  # clipped elsewhere, the arena as it was
    whole = float(clip_by_global_norm(arena, 0.5))
    assert whole == pytest.approx(13.0)
    assert layer_norms(arena, None)["generator"] == pytest.approx(4 / 26, rel=1e-6)
    assert layer_norms(arena, whole) == pytest.approx(before, rel=1e-6)


def test_gradients_that_are_zero_or_not_finite_have_norms(arena):
    arena.grads[...] = 0
    assert set(layer_norms(arena, 0.0).values()) == {0.0}
    arena.grads[:4] = np.inf
    assert layer_norms(arena, math.inf)["encoder.layers.0.norm1"] == math.inf


def test_a_part_moves_by_a_share_of_its_length(arena):
    arena.values[...] = 2.0
    before = arena.values.copy()
    arena.view(arena.values, arena.segments[1])[...] += 0.6  # beta of norm1: length 4 before, of 8 numbers √32
    assert update_ratios(arena, before) == pytest.approx(
        {"encoder.layers.0.norm1": 1.2 / math.sqrt(32), "generator": 0.0, "a.b": 0.0}
    )
    assert update_ratios(arena, 0 * before) == {}, "what was 0 has no share"


def test_saturated_rows_and_dead_units_are_shares():
    """Scores of a query times 1e6 leave one key; a causal query that sees one key does not count, nor does padding."""
    model, inputs, _, _ = showcase_model()
    attention, layer = model.decoder.layers[0].self_attention, model.encoder.layers[0]
    fresh = look_inside(model, inputs)
    attention.weight.data[:, :2] *= 1e6  # queries of head 0
    layer.feed_forward.up.weight.data[...] = 0
    layer.feed_forward.up.bias.data[...] = (-1, -2, 0, -3, 1, 2)
    found = look_inside(model, inputs)
    name = "decoder.layers.0.self_attention"
    expected = model.attention_weights(*inputs)[name].max(-1)[:, :, 1:]  # 4 tokens of the first row, 3 of the second
    rows = [*expected[0].ravel(), *expected[1, :, :2].ravel()]
    assert found["saturated." + name] == pytest.approx(np.mean(np.array(rows) > 0.99))
    assert found["saturated." + name] >= 0.5 > fresh["saturated." + name]
    assert found["dead.encoder.layers.0.feed_forward"] == pytest.approx(4 / 6)
    assert {name.partition(".")[0] for name in found} == {"saturated", "dead"}
    assert len(found) == 5
