"""Memory of heads and their gradients: merging heads, or joining dq, dk and dv, needs no copy."""

import numpy as np
import pytest

from npformer.backend.numpy.heads import empty_gradients
from npformer.functional.heads import merge_heads, split_heads
from npformer.layers.layer import concat_last


@pytest.mark.parametrize("length", [3, 200])  # in memory of its own, and in the pool's
def test_gradients_have_the_memory_layout_of_the_product(length):
    qkv = np.random.default_rng(0).normal(size=(2, length, 3 * 64))
    q, k, v = (split_heads(part, 4) for part in np.split(qkv, 3, axis=-1))
    dq, dk, dv = empty_gradients(q, k, v)
    for room, like in ((dq, q), (dk, k), (dv, v)):
        assert room.shape == like.shape
        room[...] = like
    joined = concat_last(merge_heads(dq), merge_heads(dk), merge_heads(dv))
    assert np.array_equal(joined, qkv)
    assert np.shares_memory(joined, dq)
    assert joined.flags.c_contiguous


def test_keys_and_values_of_another_sequence():
    rng = np.random.default_rng(0)
    kv, q = rng.normal(size=(2, 5, 2 * 8)), split_heads(rng.normal(size=(2, 5, 8)), 2)
    k, v = (split_heads(part, 2) for part in np.split(kv, 2, axis=-1))
    dq, dk, dv = empty_gradients(q, k, v)
    dq[...], dk[...], dv[...] = q, k, v
    joined = concat_last(merge_heads(dk), merge_heads(dv))
    assert np.array_equal(joined, kv)
    assert np.shares_memory(joined, dk)
    assert not np.shares_memory(dq, dk)
    assert merge_heads(dq).flags.c_contiguous
