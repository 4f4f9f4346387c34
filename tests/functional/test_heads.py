"""Heads: which number goes where, checked one by one."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import merge_heads, split_heads

B, T, H, D = 2, 3, 4, 5


def test_head_h_owns_columns_hd_and_on(rng):
    x = rng.normal(size=(B, T, H * D))
    heads = split_heads(x, H)
    assert heads.shape == (B, H, T, D)
    for b, h, t, d in np.ndindex(B, H, T, D):
        assert heads[b, h, t, d] == x[b, t, h * D + d]


def test_each_is_the_inverse_of_the_other(rng):
    x, heads = rng.normal(size=(B, T, H * D)), rng.normal(size=(B, H, T, D))
    assert np.array_equal(merge_heads(split_heads(x, H)), x)
    assert np.array_equal(split_heads(merge_heads(heads), H), heads)


def test_each_is_the_others_backward(rng):
    x, dheads = rng.normal(size=(B, T, H * D)), rng.normal(size=(B, H, T, D))
    assert np.sum(dheads * split_heads(x, H)) == pytest.approx(np.sum(merge_heads(dheads) * x), rel=1e-12)


def test_a_width_that_is_not_divisible_is_an_error():
    with pytest.raises(ShapeError, match=r"x: expected \(B, T, C\) with C divisible by H=4, got \(2, 3, 6\)"):
        split_heads(np.ones((2, 3, 6)), 4)
