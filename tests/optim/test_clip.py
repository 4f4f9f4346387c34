"""Clipping scales all gradients by one factor, by their global norm."""

import re

import numpy as np
import pytest

from npformer.backend import Arena
from npformer.errors import ConfigError
from npformer.layers import Parameter
from npformer.optim import clip_by_global_norm, global_norm


@pytest.fixture
def long_arena(arena, tensors):
    """Gradients of very different length per tensor."""
    rng = np.random.default_rng(2)
    for size, gradient in zip((1, 10, 0.1, 3, 100), tensors(arena, arena.grads).values(), strict=True):
        gradient[...] = size * rng.normal(size=gradient.shape)
    return arena


def test_a_long_gradient_keeps_its_direction(long_arena):
    before = long_arena.grads.copy()
    norm = clip_by_global_norm(long_arena, 2.0)
    assert float(norm) == pytest.approx(np.linalg.norm(before), rel=1e-14)
    np.testing.assert_allclose(long_arena.grads, before * (2.0 / np.linalg.norm(before)), rtol=1e-13)
    assert float(global_norm(long_arena)) == pytest.approx(2.0, rel=1e-13)


@pytest.mark.parametrize("room", [1.0, 1.5])
def test_a_short_gradient_stays_to_the_bit(long_arena, room):
    before = long_arena.grads.copy()
    clip_by_global_norm(long_arena, room * float(global_norm(long_arena)))
    assert np.array_equal(long_arena.grads, before)


def test_frozen_gradients_are_neither_counted_nor_shortened(long_arena, tensors):
    long_arena.configure("third", trainable=False)
    long_arena.configure("first.weight", trainable=False)
    before = {name: g.copy() for name, g in tensors(long_arena, long_arena.grads).items()}
    counted = np.concatenate([before[name].ravel() for name in ("first.bias", "second.weight", "second.bias")])
    norm = np.linalg.norm(counted)
    assert float(clip_by_global_norm(long_arena, 1.0)) == pytest.approx(norm, rel=1e-14)
    after = tensors(long_arena, long_arena.grads)
    for name in ("third.gain", "first.weight"):
        assert np.array_equal(after[name], before[name])
    np.testing.assert_allclose(after["second.bias"], before["second.bias"] / norm, rtol=1e-13)


def test_where_everything_is_frozen_the_norm_is_zero(long_arena, strict64):
    elsewhere = Arena([("weight", Parameter("weight", strict64.array(np.ones((2, 3)))), ())], strict64)
    elsewhere.grads[...] = 3.0
    assert float(clip_by_global_norm(elsewhere, 1.0)) == pytest.approx(3 * np.sqrt(6))
    for arena in (long_arena, elsewhere):
        for segment in arena.segments:
            arena.configure(segment.name, trainable=False)
        assert float(clip_by_global_norm(arena, 1.0)) == 0


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("nan")])
def test_a_norm_that_makes_no_sense_is_refused(arena, clip_norm):
    text = f"clip_norm: expected a number > 0 or None, got {clip_norm}"
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        clip_by_global_norm(arena, clip_norm)
