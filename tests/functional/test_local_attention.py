"""Local and strided attention: the numbers of full attention under the same mask, without its n² matrix."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest

from npformer.errors import ConfigError, ShapeError
from npformer.functional import (
    AttentionMask,
    Draw,
    attention_backward,
    attention_forward,
    local_attention_backward,
    local_attention_forward,
)
from tests.functional.growth import memory_exponent

B, H, D = 2, 2, 3
#: Lengths that a window or a stride divides, and does not; shorter than either; a window beyond the whole.
PATTERNS = list(itertools.product((1, 2, 7, 12), (1, 3, 4, 20), (None, 1, 3, 5), (False, True)))
PATTERNS += [(length, None, stride, causal) for length in (1, 6, 7) for stride in (1, 3) for causal in (False, True)]


def made(rng: np.random.Generator, length: int) -> tuple[np.ndarray[Any, Any], ...]:
    """q, k, v, dout, and which keys are visible: all, and every second one of a few."""
    visible = np.stack([np.ones(length, dtype=bool), np.arange(length) % 2 == 1])
    return (*(rng.normal(size=(B, H, length, D)) for _ in range(4)), visible)


@pytest.mark.parametrize(("length", "window", "stride", "causal"), PATTERNS)
def test_it_is_full_attention_with_the_same_mask(length, window, stride, causal, rng):
    q, k, v, dout, visible = made(rng, length)
    for mask in (AttentionMask(None, causal, 0, window, stride), AttentionMask(visible, causal, 0, window, stride)):
        out, cache = local_attention_forward(q, k, v, mask)
        full, full_cache = attention_forward(q, k, v, mask)
        np.testing.assert_allclose(out, full, rtol=1e-12, atol=1e-14)
        gradients = zip(local_attention_backward(dout, cache), attention_backward(dout, full_cache), strict=True)
        for one, other in gradients:
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("window", "stride", "causal", "keys"), [
    (3, None, False, 9), (3, None, True, 6), (None, 4, False, 3), (None, 4, True, 3), (3, 4, False, 12),
])  # fmt: skip
def test_the_keys_of_window_and_stride_add_up(window, stride, causal, keys, rng):
    q, k, v, _, _ = made(rng, 9)
    _, cache = local_attention_forward(q, k, v, AttentionMask(None, causal, 0, window, stride))
    assert cache.softmax.y.shape == (B, H, 9, keys)
    np.testing.assert_allclose(cache.softmax.y.sum(axis=-1), 1)


def test_nothing_of_a_key_beyond_the_window_arrives(rng):
    q, k, v, dout, _ = made(rng, 9)
    out, cache = local_attention_forward(q, k, v, AttentionMask(window=3))
    k2, v2 = k.copy(), v.copy()
    k2[:, :, 7:], v2[:, :, 7:] = 1e30, -1e30
    again, _ = local_attention_forward(q, k2, v2, AttentionMask(window=3))
    assert np.array_equal(again[:, :, :5], out[:, :, :5])
    _, dk, dv = local_attention_backward(dout * (np.arange(9) < 5)[:, None], cache)
    assert not dk[:, :, 7:].any()
    assert not dv[:, :, 7:].any()
    assert dv[:, :, :7].all()


def test_a_query_that_sees_nothing_has_output_0_and_gradient_0(rng):
    q, k, v, dout, _ = made(rng, 6)
    mask = AttentionMask(np.array([[True] * 6, [True] + [False] * 5]), window=2)
    out, cache = local_attention_forward(q, k, v, mask, Draw(seed=1, step=0, micro=0, site=2, rate=0.2))
    assert not out[1, :, 2:].any()
    assert out[1, :, 0].any()
    dq, dk, dv = local_attention_backward(dout, cache)
    assert not dq[1, :, 2:].any()
    assert not dk[1, :, 1:].any()
    assert not dv[1, :, 1:].any()
    assert all(np.isfinite(gradient).all() for gradient in (dq, dk, dv))


def test_dropout_drops_its_rate_and_scales_the_rest(rng):
    length = 400
    q = np.zeros((1, 1, length, 1))
    draw = Draw(seed=3, step=1, micro=0, site=9, rate=0.25)
    out, _ = local_attention_forward(q, q, np.ones_like(q), AttentionMask(window=8, causal=True), draw)
    sums = out.ravel()[8:] * 8 * 0.75  # how many of a query's eight keys were kept
    np.testing.assert_allclose(sums, np.round(sums), atol=1e-3)
    assert np.mean(sums) / 8 == pytest.approx(0.75, abs=4 * math.sqrt(0.25 * 0.75 / (8 * length)))


@pytest.mark.parametrize("mask", [AttentionMask(window=16), AttentionMask(window=16, causal=True)])
def test_memory_grows_as_the_length(mask):
    forward = lambda q, k, v: local_attention_forward(q, k, v, mask)  # noqa: E731
    assert memory_exponent(forward, local_attention_backward, 1024, 4096) < 1.05


def test_the_measure_sees_n_squared():
    assert memory_exponent(attention_forward, attention_backward, 256, 1024) > 1.9


@pytest.mark.parametrize(
    ("keys", "mask", "error", "text"),
    [
        (6, AttentionMask(causal=True), ConfigError, "mask: expected a window, a stride, or both; without them every "
         "key is near: use attention"),
        (6, AttentionMask(window=2, query_offset=3), ConfigError, "mask: expected query_offset=0, got 3; decoding asks "
         "a few kept keys instead"),
        (5, AttentionMask(window=2), ShapeError, "k: expected the shape of q: local attention is of a sequence to "
         "itself = (2, 2, 6, 3), got (2, 2, 5, 3)"),
        (6, AttentionMask(np.ones((2, 5), dtype=bool), window=2), ShapeError, "key_visible: expected (B, S) = (2, 6), "
         "got (2, 5)"),
    ],
)  # fmt: skip
def test_masks_that_are_not_local(keys, mask, error, text, rng):
    k = rng.normal(size=(B, H, keys, D))
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        local_attention_forward(rng.normal(size=(B, H, 6, D)), k, k, mask)


@pytest.mark.parametrize("name", ["window", "stride"])
@pytest.mark.parametrize("size", [0, -2])
def test_a_window_or_stride_of_nothing_is_refused(name, size):
    with pytest.raises(ConfigError, match=f"^{name}: expected an integer >= 1 or None, got {size}$"):
        AttentionMask(**{name: size})
