"""Post-LN: the norm of the sum, so that the residual path, too, passes the norm."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import (
    Draw,
    dropout_forward,
    layer_norm_backward,
    layer_norm_forward,
    post_norm_backward,
    post_norm_forward,
)

DRAW = Draw(seed=1, step=0, micro=0, site=8, rate=0.5)


def test_is_the_norm_of_the_sum(rng):
    x, f, dy = (rng.normal(size=(2, 3, 16)) for _ in range(3))
    gamma, beta = rng.normal(size=16), rng.normal(size=16)
    y, cache = post_norm_forward(x, f, gamma, beta, 1e-5, DRAW)
    keep_scale = dropout_forward(np.ones_like(f), DRAW)[0]
    expected, norm = layer_norm_forward(x + f * keep_scale, gamma, beta, 1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-13)
    dtotal, dgamma, dbeta = layer_norm_backward(dy, norm)
    for found, wanted in zip(
        post_norm_backward(dy, cache), (dtotal, dtotal * keep_scale, dgamma, dbeta), strict=True
    ):  # fmt: skip
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_is_not_pre_ln(rng):
    x, f = 5 * rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    y, _ = post_norm_forward(x, f, np.ones(4), np.zeros(4), 1e-5, None)
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(y.var(-1), 1, rtol=1e-3)


def test_errors_are_those_of_its_parts():
    x, ones = np.ones((2, 4)), np.ones(4)
    with pytest.raises(ShapeError, match=r"f: expected the shape of x = \(2, 4\), got \(2, 3\)"):
        post_norm_forward(x, np.ones((2, 3)), ones, ones, 1e-5, None)
    with pytest.raises(ShapeError, match=r"gamma: expected \(C,\) = \(4,\), got \(3,\)"):
        post_norm_forward(x, x, np.ones(3), ones, 1e-5, None)
