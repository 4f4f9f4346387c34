"""The residual sum: both terms get their gradient, the second one through the dropout."""

import numpy as np

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
