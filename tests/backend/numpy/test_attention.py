"""Attention in every table: each kind of mask, dropout, rows of nothing, saturated scores, heads as views."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.backend.numpy.attention import score_caps
from npformer.errors import NpformerError
from npformer.functional import AttentionMask, Draw, merge_heads, split_heads

DRAW = Draw(3, 4, 1, 99, 0.3, first_row=2)
POSITIONS = {
    "all": AttentionMask(),
    "causal": AttentionMask(causal=True),
    "offset": AttentionMask(causal=True, query_offset=2),
    "window": AttentionMask(window=2),
    "causal window": AttentionMask(causal=True, window=1),
    "stride": AttentionMask(stride=2),
    "stride and window": AttentionMask(causal=True, window=2, stride=3),
    "window that sees nothing": AttentionMask(query_offset=99, window=2),
}
SHAPES = [(1, 1, 1, 1, 1), (2, 3, 4, 5, 6), (3, 1, 1, 7, 3), (0, 2, 3, 3, 4), (2, 2, 0, 3, 4), (24, 4, 47, 50, 5)]


def heads(rng, dtype, B, H, T, D):
    """Read-only heads (B, H, T, D) as a layer makes them: views of columns of a projection."""
    tokens = rng.normal(size=(B, T, 2 * H * D)).astype(dtype)[..., : H * D]
    tokens.flags.writeable = False
    return split_heads(tokens, H)


def case(dtype, shape, scale=1.0):
    rng = np.random.default_rng(1)
    B, H, T, S, D = shape
    return scale * heads(rng, dtype, B, H, T, D), heads(rng, dtype, B, H, S, D), heads(rng, dtype, B, H, S, D)


def padded(mask, B, S):
    """mask with keys hidden at random, all of them in the last sequence."""
    visible = np.random.default_rng(2).random((B, S)) < 0.7
    visible[B - 1 :] = False
    return AttentionMask(visible, mask.causal, mask.query_offset, mask.window, mask.stride)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("draw", [None, DRAW], ids=["inference", "dropout"])
def test_it_equals_the_plain_pair(agree, dtype, shape, name, draw):
    q, k, v = case(dtype, shape)
    assert agree("attention", q, k, v, POSITIONS[name], draw)
    assert agree("attention", q, k, v, padded(POSITIONS[name], shape[0], shape[3]), draw)
    if name == "causal window":  # of one key: dbias is 0, and B sequences' rounding noise in its place
        return
    bias = np.random.default_rng(3).normal(size=shape[1:4]).astype(dtype)
    assert agree("biased_attention", q, k, v, bias, POSITIONS[name], draw)
    assert agree("biased_attention", q, k, v, bias, padded(POSITIONS[name], shape[0], shape[3]), draw)


@pytest.mark.parametrize("scale", [30.0, 1e4])
def test_saturated_scores_neither_overflow_nor_vanish(agree, dtype, scale):
    for name in ("all", "causal"):
        q, k, v = case(dtype, (2, 3, 4, 5, 6), scale)
        assert agree("attention", q, k, v, POSITIONS[name], DRAW)
        assert agree("attention", q, k, v, padded(POSITIONS[name], 2, 5), None)
        bias = scale * np.random.default_rng(3).normal(size=(3, 4, 5)).astype(dtype)
        assert agree("biased_attention", q, k, v, bias, POSITIONS[name], DRAW)
    q, k, v = case(dtype, (2, 1, 3, 4, 2))
    assert agree("attention", np.abs(q), -scale * np.abs(k), v, AttentionMask(), None)  # all scores far below 0


def test_hidden_keys_do_not_matter_however_large(table):
    q, k, v = case("float32", (2, 2, 3, 5, 4))
    mask = AttentionMask(np.arange(5)[None, :] < np.array([[3], [4]]))
    poisoned_k, poisoned_v = k.copy(), v.copy()
    poisoned_k[0, :, 3:], poisoned_v[0, :, 3:] = 1e30, -1e30
    y, cache = table.attention.forward(q, k, v, mask)
    other, other_cache = table.attention.forward(q, poisoned_k, poisoned_v, mask)
    np.testing.assert_allclose(other, y, rtol=1e-5)
    for g, h in zip(table.attention.backward(y, cache), table.attention.backward(y, other_cache), strict=True):
        assert np.isfinite(h).all()
        np.testing.assert_allclose(h, g, rtol=1e-4, atol=1e-6)


def test_a_query_that_sees_nothing_gets_nothing(table):
    q, k, v = case("float32", (2, 2, 3, 5, 4))
    y, cache = table.attention.forward(q, k, v, AttentionMask(np.array([[True] * 5, [False] * 5])), DRAW)
    gradients = table.attention.backward(np.ones_like(y), cache)
    assert y[0].all()
    assert not y[1].any()
    assert not any(g[1].any() for g in gradients)


def test_the_same_weights_are_dropped_as_by_the_plain_pair(table):
    """With V the identity the output is the dropped weights themselves."""
    q, k, _ = case("float64", (3, 2, 4, 6, 6))
    v = np.broadcast_to(np.eye(6), (3, 2, 6, 6))
    y, plain = (ops.attention.forward(q, k, v, AttentionMask(), DRAW)[0] for ops in (table, PLAIN))
    assert np.array_equal(y == 0, plain == 0)
    assert 0 < np.count_nonzero(y == 0) < y.size


def test_merging_what_comes_out_copies_nothing(table):
    q, k, v = case("float32", (2, 3, 4, 5, 6))
    y, cache = table.attention.forward(q, k, v)
    for each in (y, *table.attention.backward(y, cache)):
        assert np.shares_memory(merge_heads(each), each)


@pytest.mark.parametrize("key_visible", [np.ones((1, 5), bool), np.ones((2, 4), bool), np.ones((2, 5))], ids=str)
def test_a_bad_mask_is_refused_in_the_plain_kernels_words(table, key_visible):
    q, k, v = case("float32", (2, 3, 4, 5, 6))
    messages = []
    for ops in (PLAIN, table):
        with pytest.raises(NpformerError) as caught:
            ops.attention.forward(q, k, v, AttentionMask(key_visible, causal=True))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("T", [1, 4])
def test_score_caps_are_the_masks(name, T):
    like, mask = np.empty((3, 1, T, 2), np.float32), POSITIONS[name]
    for given in (mask, padded(mask, 3, 5), AttentionMask(np.ones((3, 5), bool), mask.causal, window=mask.window)):
        caps, visible = score_caps(given, T, 5, like), given.visible(T, 5, like)
        shape = (3, 1, T, 5)
        everything = np.ones(shape, bool)
        found = np.full(shape, np.inf) if caps is None else np.broadcast_to(caps, shape)
        assert caps is None or caps.dtype == np.float32
        assert np.array_equal(found == np.inf, everything if visible is None else np.broadcast_to(visible, shape))
        assert np.isinf(found).all()
