"""Attention of every kind in every table: masks, dropout, rows of nothing, saturated scores, chunks, heads as views."""

import dataclasses

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.functional import AttentionMask, Draw, merge_heads, split_heads
from npformer.functional.linear_attention import CHUNK
from npformer.layers.layer import concat_last

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
#: Windows and strides of 1, of as many tokens as there are, of more; that divide the length and do not; both together.
LOCAL = {
    "itself": AttentionMask(window=1),
    "window": AttentionMask(window=2),
    "causal window": AttentionMask(window=3, causal=True),
    "window wider than all": AttentionMask(window=50),
    "stride": AttentionMask(stride=3),
    "causal stride": AttentionMask(stride=2, causal=True),
    "stride wider than all": AttentionMask(stride=50),
    "both": AttentionMask(window=2, stride=3),
    "both, causal": AttentionMask(window=4, stride=5, causal=True),
}
EVERY_PATTERN = pytest.mark.parametrize("mask", LOCAL.values(), ids=list(LOCAL))
WITH_DROPOUT_AND_WITHOUT = pytest.mark.parametrize("draw", [None, DRAW], ids=["inference", "dropout"])
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


def seen(B, S):
    """Keys hidden at random, all of them in the last sequence."""
    visible = np.random.default_rng(2).random((B, S)) < 0.7
    visible[B - 1 :] = False
    return visible


def padded(mask, B, S):
    """mask with keys hidden as well."""
    return dataclasses.replace(mask, key_visible=seen(B, S))


def of_one(dtype, B, H, T, D, count=3):
    """q, k and v (B, H, T, D), or the last of them, read-only, as layers make them: views of columns of one product."""
    tokens = np.random.default_rng(1).normal(size=(B, T, count * H * D)).astype(dtype)
    tokens.flags.writeable = False
    return tuple(split_heads(tokens[..., i * H * D : (i + 1) * H * D], H) for i in range(count))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", POSITIONS)
@WITH_DROPOUT_AND_WITHOUT
def test_it_equals_the_plain_pair(agree, dtype, shape, name, draw):
    q, k, v = case(dtype, shape)
    assert agree("attention", q, k, v, POSITIONS[name], draw)
    assert agree("attention", q, k, v, padded(POSITIONS[name], shape[0], shape[3]), draw)
    if name == "causal window":  # of one key: dbias is 0, and B sequences' rounding noise in its place
        return
    bias = np.random.default_rng(3).normal(size=shape[1:4]).astype(dtype)
    assert agree("biased_attention", q, k, v, bias, POSITIONS[name], draw)
    assert agree("biased_attention", q, k, v, bias, padded(POSITIONS[name], shape[0], shape[3]), draw)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 7, 4), (3, 1, 8, 3), (0, 2, 3, 4), (24, 4, 47, 5)], ids=str)
@EVERY_PATTERN
@WITH_DROPOUT_AND_WITHOUT
def test_local_attention_equals_the_plain_pair(agree, dtype, shape, mask, draw):
    B, _, T, _ = shape
    for key_visible in (None, np.ones((B, T), bool), seen(B, T)):
        masked = dataclasses.replace(mask, key_visible=key_visible)
        assert agree("local_attention", *of_one(dtype, *shape), masked, draw)


@pytest.mark.parametrize("shape", [*SHAPES[:2], *SHAPES[3:5], (40, 8, 47, 50, 16)], ids=str)
def test_linear_attention_equals_the_plain_pair(agree, dtype, shape):
    B, _, _, S, _ = shape
    for key_visible in (None, np.ones((B, S), bool), seen(B, S)):
        assert agree("linear_attention", *case(dtype, shape), AttentionMask(key_visible))


@pytest.mark.parametrize("T", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + CHUNK // 2 + 1, 3 * CHUNK + 5])
def test_chunks_of_linear_attention_make_no_difference(agree, dtype, T):
    some = seen(3, T)
    some[:, :2] = False  # queries that see nothing
    for key_visible in (None, some):
        assert agree("linear_attention", *case(dtype, (3, 2, T, T, 5)), AttentionMask(key_visible, causal=True))


def test_large_numbers_do_not_overflow(agree, dtype):
    q, k, v = case(dtype, (2, 2, 7, 7, 4))
    with np.errstate(over="raise"):
        for causal in (False, True):
            assert agree("linear_attention", 1e3 * q, 1e3 * k, v, AttentionMask(causal=causal))


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


@pytest.mark.parametrize("name", ["window", "window wider than all", "stride", "both"])
def test_saturated_scores_of_local_attention_neither_overflow_nor_vanish(agree, dtype, name):
    """Scores of some hundred: e^100 is no moderate number, but what exp makes of their rounding errors is small.

    Not where a query sees one key alone: its gradient is 0, and the noise in its place as large as q.
    """
    q, k, v = of_one(dtype, 2, 3, 7, 4)
    assert agree("local_attention", 100 * q, k, v, LOCAL[name], DRAW)
    assert agree("local_attention", np.abs(q), -100 * np.abs(k), v, LOCAL[name])


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


@pytest.mark.parametrize("together", [3, 2], ids=["self-attention", "to a memory"])
@pytest.mark.parametrize("op", ["attention", "local_attention"])
def test_merging_and_joining_what_comes_out_copies_nothing(table, op, together):
    """Gradients are adjacent as their inputs are, so that one product reads that of a block (B, T, 3C) or 2C."""
    pair, window = getattr(table, op), 3 if op == "local_attention" else None
    if pair is getattr(PLAIN, op):
        pytest.skip("it is the plain pair")
    sizes = "float32", 2, 3, 8, 4
    q, k, v = *of_one(*sizes, 3 - together), *of_one(*sizes, together)
    y, cache = pair.forward(q, k, v, AttentionMask(window=window))
    made = (y, *pair.backward(y, cache))
    merged = [merge_heads(each) for each in made]
    assert all(map(np.shares_memory, merged, made))
    joined = concat_last(*merged[-together:])
    assert joined.flags.c_contiguous
    assert np.shares_memory(joined, made[-1])
