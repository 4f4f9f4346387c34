"""The residual sum, alone and with the norm of post-LN or of pre-LN: dropout meets the sub-layer and not the stream."""

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812

DRAW = F.Draw(seed=1, step=0, micro=0, site=8, rate=0.5)
KEEP_SCALE = F.dropout_forward(np.ones((2, 3, 40)), DRAW)[0]


@pytest.fixture
def inputs(rng):
    """x and f (2, 3, 40), and γ, β and ε."""
    return *rng.normal(size=(2, 2, 3, 40)), (rng.normal(size=40), rng.normal(size=40), 1e-3)


def test_dropout_meets_the_sub_layer_and_not_the_stream(inputs, rng):
    x, f, _ = inputs
    dy = rng.normal(size=x.shape)
    y, cache = F.residual_forward(x, f, DRAW)
    assert 0 < np.count_nonzero(KEEP_SCALE) < KEEP_SCALE.size
    np.testing.assert_array_equal(y, x + f * KEEP_SCALE)
    dx, df = F.residual_backward(dy, cache)
    np.testing.assert_array_equal(dx, dy)
    np.testing.assert_array_equal(df, dy * KEEP_SCALE)


def test_post_ln_is_the_norm_of_the_sum(inputs):
    x, f, norm = inputs
    expected, _ = F.layer_norm_forward(x + f * KEEP_SCALE, *norm)
    np.testing.assert_allclose(F.post_norm_forward(x, f, *norm, DRAW)[0], expected, rtol=1e-13)


def test_pre_ln_hands_on_the_sum_untouched_beside_its_norm(inputs):
    x, f, norm = inputs
    (total, normed), _ = F.add_norm_forward(x, f, *norm, DRAW)
    np.testing.assert_array_equal(total, x + f * KEEP_SCALE)
    np.testing.assert_array_equal(normed, F.layer_norm_forward(total, *norm)[0])
