"""Pre-LN's joint: two outputs, and a sum that receives the gradients of both."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import (
    Draw,
    add_norm_backward,
    add_norm_forward,
    dropout_forward,
    layer_norm_backward,
    layer_norm_forward,
)

DRAW = Draw(seed=1, step=0, micro=0, site=8, rate=0.5)


def test_the_sum_runs_on_untouched_and_the_norm_is_of_it(rng):
    x, f, dtotal, dnormed = (rng.normal(size=(2, 3, 16)) for _ in range(4))
    gamma, beta = rng.normal(size=16), rng.normal(size=16)
    (total, normed), cache = add_norm_forward(x, f, gamma, beta, 1e-5, DRAW)
    keep_scale = dropout_forward(np.ones_like(f), DRAW)[0]
    np.testing.assert_array_equal(total, x + f * keep_scale)
    expected, norm = layer_norm_forward(total, gamma, beta, 1e-5)
    np.testing.assert_array_equal(normed, expected)
    through_norm, dgamma, dbeta = layer_norm_backward(dnormed, norm)
    dx = dtotal + through_norm
    for found, wanted in zip(
        add_norm_backward((dtotal, dnormed), cache), (dx, dx * keep_scale, dgamma, dbeta), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_the_streams_own_gradient_passes_unscaled(rng):
    x, f, dtotal = (rng.normal(size=(2, 4)) for _ in range(3))
    _, cache = add_norm_forward(x, f, rng.normal(size=4), rng.normal(size=4), 1e-5, None)
    dx, df, dgamma, dbeta = add_norm_backward((dtotal, np.zeros_like(dtotal)), cache)
    np.testing.assert_array_equal(dx, dtotal)
    np.testing.assert_array_equal(df, dtotal)
    assert not dgamma.any()
    assert not dbeta.any()


def test_errors_are_those_of_its_parts():
    x, ones = np.ones((2, 4)), np.ones(4)
    with pytest.raises(ShapeError, match=r"f: expected the shape of x = \(2, 4\), got \(4,\)"):
        add_norm_forward(x, ones, ones, ones, 1e-5, None)
    with pytest.raises(ShapeError, match=r"beta: expected \(C,\) = \(4,\), got \(3,\)"):
        add_norm_forward(x, x, ones, np.ones(3), 1e-5, None)
