"""Local attention on views: windows and strides that fit and do not, dropout, padding, saturated scores."""

import numpy as np
import pytest

from npformer.backend import PLAIN
from npformer.backend.numpy.kernels import KERNELS
from npformer.functional import AttentionMask, Draw, merge_heads, split_heads

DRAW = Draw(3, 4, 1, 99, 0.3, first_row=2)
#: Of 1, of as many tokens as there are, of more; that divide the length and do not; both together.
PATTERNS = {
    "itself": {"window": 1},
    "window": {"window": 2},
    "causal window": {"window": 3, "causal": True},
    "window wider than all": {"window": 50},
    "stride": {"stride": 3},
    "causal stride": {"stride": 2, "causal": True},
    "stride wider than all": {"stride": 50},
    "both": {"window": 2, "stride": 3},
    "both, causal": {"window": 4, "stride": 5, "causal": True},
}
SHAPES = [(1, 1, 1, 1), (2, 3, 7, 4), (3, 1, 8, 3), (0, 2, 3, 4), (24, 4, 47, 5)]
EVERY_PATTERN = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))


def heads(dtype, B, H, T, D):
    """q, k and v (B, H, T, D), read-only, as a layer makes them: views of columns of one projection."""
    tokens = np.random.default_rng(1).normal(size=(B, T, 3 * H * D)).astype(dtype)
    tokens.flags.writeable = False
    return tuple(split_heads(tokens[..., i * H * D : (i + 1) * H * D], H) for i in range(3))


def seen(B, T):
    """Keys hidden at random, all of them in the last sequence."""
    visible = np.random.default_rng(2).random((B, T)) < 0.7
    visible[B - 1 :] = False
    return visible


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@EVERY_PATTERN
@pytest.mark.parametrize("draw", [None, DRAW], ids=["inference", "dropout"])
def test_it_equals_the_plain_pair(agree, dtype, shape, pattern, draw):
    for key_visible in (None, np.ones((shape[0], shape[2]), bool), seen(shape[0], shape[2])):
        assert agree("local_attention", *heads(dtype, *shape), AttentionMask(key_visible, **pattern), draw)


@pytest.mark.parametrize("name", ["window", "window wider than all", "stride", "both"])
def test_saturated_scores_neither_overflow_nor_vanish(agree, dtype, name):
    """Scores of some hundred: e^100 is no moderate number, but what exp makes of their rounding errors is small.

    Not where a query sees one key alone: its gradient is 0, and the noise in its place as large as q.
    """
    q, k, v = heads(dtype, 2, 3, 7, 4)
    assert agree("local_attention", 100 * q, k, v, AttentionMask(**PATTERNS[name]), DRAW)
    assert agree("local_attention", np.abs(q), -100 * np.abs(k), v, AttentionMask(**PATTERNS[name]))


@EVERY_PATTERN
def test_it_equals_attention_with_the_same_mask(pattern):
    given, mask = heads("float64", 2, 3, 7, 4), AttentionMask(seen(2, 7), **pattern)
    y, cache = KERNELS.local_attention.forward(*given, mask)
    true, plain = PLAIN.attention.forward(*given, mask)
    np.testing.assert_allclose(y, true, rtol=1e-12, atol=1e-14)
    found, gradients = KERNELS.local_attention.backward(y, cache), PLAIN.attention.backward(y, plain)
    for f, t in zip(found, gradients, strict=True):
        np.testing.assert_allclose(f, t, rtol=1e-11, atol=1e-13)


def test_the_same_weights_are_dropped_as_by_the_plain_pair():
    """With V the identity the output is the dropped weights themselves."""
    q, k, _ = heads("float64", 3, 2, 8, 8)
    v, mask = np.broadcast_to(np.eye(8), (3, 2, 8, 8)), AttentionMask(window=3, stride=4)
    y, plain = (ops.local_attention.forward(q, k, v, mask, DRAW)[0] for ops in (KERNELS, PLAIN))
    assert np.array_equal(y == 0, plain == 0)
    near = np.count_nonzero(mask.visible(8, 8, q)) * 6
    assert 0 < np.count_nonzero(y) < near


def test_merging_what_comes_out_copies_nothing():
    y, cache = KERNELS.local_attention.forward(*heads("float32", 2, 3, 7, 4), AttentionMask(window=2))
    for each in (y, *KERNELS.local_attention.backward(y, cache)):
        assert np.shares_memory(merge_heads(each), each)
