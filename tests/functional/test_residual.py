"""The residual sum: both terms get their gradient, the second one through the dropout."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import Draw, dropout_forward, residual_backward, residual_forward

DRAW = Draw(seed=1, step=0, micro=0, site=8, rate=0.5)


def test_dropout_meets_the_sub_layer_and_not_the_stream(rng):
    x, f, dy = (rng.normal(size=(2, 3, 40)) for _ in range(3))
    y, cache = residual_forward(x, f, DRAW)
    keep_scale = dropout_forward(np.ones_like(f), DRAW)[0]
    assert 0 < np.count_nonzero(keep_scale) < keep_scale.size
    np.testing.assert_array_equal(y, x + f * keep_scale)
    dx, df = residual_backward(dy, cache)
    np.testing.assert_array_equal(dx, dy)
    np.testing.assert_array_equal(df, dy * keep_scale)


def test_without_dropout_both_get_dy(rng):
    x, f, dy = (rng.normal(size=(3, 4)) for _ in range(3))
    y, cache = residual_forward(x, f, None)
    np.testing.assert_array_equal(y, x + f)
    for gradient in residual_backward(dy, cache):
        np.testing.assert_array_equal(gradient, dy)


def test_shapes_must_be_equal_and_not_only_broadcast():
    with pytest.raises(ShapeError, match=r"f: expected the shape of x = \(2, 3, 4\), got \(1, 3, 4\)"):
        residual_forward(np.ones((2, 3, 4)), np.ones((1, 3, 4)), None)
