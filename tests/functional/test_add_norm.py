"""Pre-LN's joint: two outputs, the sum and its norm."""

import numpy as np

from npformer.functional import (
    Draw,
    add_norm_forward,
    dropout_forward,
    layer_norm_forward,
)

DRAW = Draw(seed=1, step=0, micro=0, site=8, rate=0.5)


def test_the_sum_runs_on_untouched_and_the_norm_is_of_it(rng):
    x, f = rng.normal(size=(2, 2, 3, 16))
    gamma, beta = rng.normal(size=16), rng.normal(size=16)
    (total, normed), _ = add_norm_forward(x, f, gamma, beta, 1e-5, DRAW)
    keep_scale = dropout_forward(np.ones_like(f), DRAW)[0]
    np.testing.assert_array_equal(total, x + f * keep_scale)
    expected, _ = layer_norm_forward(total, gamma, beta, 1e-5)
    np.testing.assert_array_equal(normed, expected)
