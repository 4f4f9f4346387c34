"""The feed-forward: two linear maps with the activation and the dropout between them."""

import numpy as np
import pytest

from npformer.functional import (
    Draw,
    dropout_forward,
    feed_forward_forward,
    gelu_forward,
)

DRAW = Draw(seed=1, step=0, micro=0, site=8, rate=0.4)


@pytest.fixture
def parts(rng):
    """x (2, 3, 4), w1 (4, 6), b1 (6,), w2 (6, 4), b2 (4,)."""
    return [rng.normal(size=size) for size in ((2, 3, 4), (4, 6), (6,), (6, 4), (4,))]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_values_line_by_line(parts, activation):
    x, w1, b1, w2, b2 = parts
    y, _ = feed_forward_forward(*parts, activation, DRAW)
    h = np.einsum("btc,cf->btf", x, w1) + b1
    a = h * (h > 0) if activation == "relu" else gelu_forward(h)[0]
    keep_scale = dropout_forward(np.ones_like(h), DRAW)[0]
    np.testing.assert_allclose(y, np.einsum("btf,fc->btc", a * keep_scale, w2) + b2, rtol=1e-11, atol=1e-14)
