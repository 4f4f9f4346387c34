"""Heads: which number goes where, checked one by one."""

import numpy as np

from npformer.functional import split_heads

B, T, H, D = 2, 3, 4, 5


def test_head_h_owns_columns_hd_and_on(rng):
    x = rng.normal(size=(B, T, H * D))
    heads = split_heads(x, H)
    assert heads.shape == (B, H, T, D)
    for b, h, t, d in np.ndindex(B, H, T, D):
        assert heads[b, h, t, d] == x[b, t, h * D + d]
