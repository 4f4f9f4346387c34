"""Linear attention: lengths around a chunk, blocks of sequences, padding, queries that see nothing."""

import numpy as np
import pytest

from npformer.functional import AttentionMask, split_heads
from npformer.functional.linear_attention import CHUNK

#: (B, H, T, S, D); of causal ones S is T.
SHAPES = [(1, 1, 1, 1, 1), (2, 3, 4, 5, 6), (0, 2, 3, 3, 4), (2, 2, 0, 3, 4), (40, 8, 47, 50, 16)]
LENGTHS = [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + CHUNK // 2 + 1, 3 * CHUNK + 5]


def heads(seed, dtype, B, H, T, D):
    """Read-only heads (B, H, T, D) as a layer makes them: views of columns of a projection."""
    tokens = np.random.default_rng(seed).normal(size=(B, T, 2 * H * D)).astype(dtype)[..., : H * D]
    tokens.flags.writeable = False
    return split_heads(tokens, H)


def seen(B, S):
    """Keys hidden at random, the first ones everywhere, and all of them in the last sequence."""
    visible = np.random.default_rng(2).random((B, S)) < 0.7
    visible[:, :2] = False
    visible[B - 1 :] = False
    return visible


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_equals_the_plain_pair(agree, dtype, shape):
    B, H, T, S, D = shape
    q, k, v = heads(0, dtype, B, H, T, D), heads(1, dtype, B, H, S, D), heads(2, dtype, B, H, S, D)
    for mask in (AttentionMask(), AttentionMask(np.ones((B, S), bool)), AttentionMask(seen(B, S))):
        assert agree("linear_attention", q, k, v, mask)


@pytest.mark.parametrize("T", LENGTHS)
def test_chunks_make_no_difference(agree, dtype, T):
    q, k, v = (heads(seed, dtype, 3, 2, T, 5) for seed in range(3))
    for key_visible in (None, seen(3, T)):
        assert agree("linear_attention", q, k, v, AttentionMask(key_visible, causal=True))


def test_large_numbers_do_not_overflow(agree, dtype):
    q, k, v = (heads(seed, dtype, 2, 2, 7, 4) for seed in range(3))
    with np.errstate(over="raise"):
        for causal in (False, True):
            assert agree("linear_attention", 1e3 * q, 1e3 * k, v, AttentionMask(causal=causal))
