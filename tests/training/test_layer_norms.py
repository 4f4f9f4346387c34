"""The gradient's norm of each part: the parts make up the whole, before clipping, and cost no backward."""

import math

import numpy as np
import pytest

from npformer.backend import Arena, get_backend
from npformer.layers import Parameter
from npformer.optim import clip_by_global_norm
from npformer.training.layer_norms import layer_norms, part_of


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
