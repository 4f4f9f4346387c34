"""The feed-forward: two linear maps with the activation and the dropout between them."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.errors import ConfigError, ShapeError
from npformer.functional import (
    Draw,
    dropout_forward,
    feed_forward_backward,
    feed_forward_forward,
    gelu_backward,
    gelu_forward,
)

DRAW = Draw(seed=1, step=0, micro=0, site=8, rate=0.4)


@pytest.fixture
def parts(rng):
    """x (2, 3, 4), w1 (4, 6), b1 (6,), w2 (6, 4), b2 (4,)."""
    return [rng.normal(size=size) for size in ((2, 3, 4), (4, 6), (6,), (6, 4), (4,))]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_values_and_gradients_line_by_line(parts, rng, activation):
    x, w1, b1, w2, b2 = parts
    y, cache = feed_forward_forward(*parts, activation, DRAW)
    h = np.einsum("btc,cf->btf", x, w1) + b1
    a, gelu_cache = gelu_forward(h)
    slope = gelu_backward(np.ones_like(h), gelu_cache)[0]
    if activation == "relu":
        a, slope = h * (h > 0), h > 0
    keep_scale = dropout_forward(np.ones_like(h), DRAW)[0]
    np.testing.assert_allclose(y, np.einsum("btf,fc->btc", a * keep_scale, w2) + b2, rtol=1e-11, atol=1e-14)
    dy = rng.normal(size=y.shape)
    dh = np.einsum("btc,fc->btf", dy, w2) * keep_scale * slope
    wanted = (
        np.einsum("btf,cf->btc", dh, w1),
        np.einsum("btc,btf->cf", x, dh),
        dh.sum((0, 1)),
        np.einsum("btf,btc->fc", a * keep_scale, dy),
        dy.sum((0, 1)),
    )
    for found, expected in zip(feed_forward_backward(dy, cache), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)


def test_each_token_is_alone(parts):
    together, _ = feed_forward_forward(*parts, "gelu", None)
    alone, _ = feed_forward_forward(parts[0][1:, 2:], *parts[1:], "gelu", None)
    np.testing.assert_allclose(alone[0, 0], together[1, 2], rtol=1e-13)


def test_an_unknown_activation_is_an_error_that_lists_the_known(parts):
    with pytest.raises(ConfigError, match="activation: expected one of relu, gelu, got 'swish'"):
        feed_forward_forward(*parts, "swish", None)


def test_widths_must_meet(parts):
    x, w1, b1, w2, b2 = parts
    with pytest.raises(ShapeError, match=r"x: expected \(\.\.\., C_in=6\), got \(2, 3, 4\)"):
        feed_forward_forward(x, w2, b2, w1, b1, "relu", None)
    with pytest.raises(ShapeError, match=r"bias: expected \(C_out,\) = \(6,\), got \(4,\)"):
        feed_forward_forward(x, w1, b2, w2, b2, "relu", None)
