"""Post-LN: the norm of the sum, so that the residual path, too, passes the norm."""

import numpy as np

from npformer.functional import (
    Draw,
    dropout_forward,
    layer_norm_forward,
    post_norm_forward,
)

DRAW = Draw(seed=1, step=0, micro=0, site=8, rate=0.5)


def test_is_the_norm_of_the_sum(rng):
    x, f = rng.normal(size=(2, 2, 3, 16))
    gamma, beta = rng.normal(size=16), rng.normal(size=16)
    y, _ = post_norm_forward(x, f, gamma, beta, 1e-5, DRAW)
    keep_scale = dropout_forward(np.ones_like(f), DRAW)[0]
    expected, _ = layer_norm_forward(x + f * keep_scale, gamma, beta, 1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-13)
