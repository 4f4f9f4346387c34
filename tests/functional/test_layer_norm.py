"""LayerNorm: values by Python sums, and what its gradient cannot contain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import layer_norm_backward, layer_norm_forward


def test_values_row_by_row(rng):
    x, gamma, beta, eps = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=5), 0.02
    y, _ = layer_norm_forward(x, gamma, beta, eps)
    for row, out in zip(x.tolist(), y, strict=True):
        mean = math.fsum(row) / 5
        variance = math.fsum((value - mean) ** 2 for value in row) / 5  # over C, not C − 1
        root = math.sqrt(variance + eps)  # eps inside the root
        assert out == pytest.approx([g * (v - mean) / root + b for v, g, b in zip(row, gamma, beta, strict=True)])


def test_gradient_is_the_jacobian_of_the_docstring(rng):
    x, gamma, beta, dy = (rng.normal(size=s) for s in ((1, 4), 4, 4, (1, 4)))
    _, cache = layer_norm_forward(x, gamma, beta, 1e-3)
    dx, dgamma, dbeta = layer_norm_backward(dy, cache)
    u = x[0] - x[0].mean()
    r = 1 / math.sqrt(np.mean(u * u) + 1e-3)
    centring = np.eye(4) - 1 / 4  # ∂u/∂x
    scaling = r * np.eye(4) - r**3 / 4 * np.outer(u, u)  # ∂x̂/∂u
    np.testing.assert_allclose(dx[0], (dy[0] * gamma) @ scaling @ centring, rtol=1e-12)
    np.testing.assert_allclose(dgamma, dy[0] * u * r, rtol=1e-12)
    np.testing.assert_allclose(dbeta, dy[0], rtol=1e-12)


def test_dgamma_and_dbeta_sum_over_all_tokens(rng):
    x, gamma, beta, dy = (rng.normal(size=s) for s in ((2, 3, 5), 5, 5, (2, 3, 5)))
    _, cache = layer_norm_forward(x, gamma, beta, 1e-5)
    _, dgamma, dbeta = layer_norm_backward(dy, cache)
    np.testing.assert_allclose(dbeta, sum(dy[b, t] for b in range(2) for t in range(3)), rtol=1e-12)
    np.testing.assert_allclose(dgamma, np.einsum("btc,btc->c", dy, (x - x.mean(-1, keepdims=True)) * cache.r))


def test_dx_holds_nothing_along_1_and_nothing_along_x_hat_as_eps_vanishes(rng):
    x, gamma, beta, dy = (rng.normal(size=s) for s in ((6, 8), 8, 8, (6, 8)))
    along_x_hat = []
    for eps in (1e-1, 1e-5, 1e-12):
        _, cache = layer_norm_forward(x, gamma, beta, eps)
        dx, _, _ = layer_norm_backward(dy, cache)
        np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-13)
        along_x_hat.append(np.max(np.abs(np.sum(dx * cache.x_hat, axis=-1))))
    assert along_x_hat[0] > 1e-2 > 1e-4 > along_x_hat[1]
    assert along_x_hat[2] < 1e-11


def test_a_shift_changes_nothing_and_a_scale_nothing_but_by_eps(rng):
    x, gamma, beta = rng.normal(size=(3, 6)), rng.normal(size=6), rng.normal(size=6)
    y, _ = layer_norm_forward(x, gamma, beta, 1e-12)
    np.testing.assert_allclose(layer_norm_forward(x + 7, gamma, beta, 1e-12)[0], y, atol=1e-12)
    np.testing.assert_allclose(layer_norm_forward(x * 7, gamma, beta, 1e-12)[0], y, atol=1e-11)


@pytest.mark.parametrize("width", [1, 4])
def test_a_constant_row_gives_beta_and_finite_gradients(width):
    gamma, beta = np.full(width, 2.0), np.linspace(1, 3, width)
    y, cache = layer_norm_forward(np.full((2, width), 5.0), gamma, beta, 1e-5)
    dx, dgamma, _ = layer_norm_backward(np.ones((2, width)) * np.arange(width), cache)
    assert y.tolist() == [beta.tolist()] * 2
    assert np.all(np.isfinite(dx))
    assert not dgamma.any()
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-9)
    g = gamma * np.arange(width)
    np.testing.assert_allclose(dx, [(g - g.mean()) / np.sqrt(1e-5)] * 2)  # r = 1/√ε, and x̂ = 0


def test_one_token_without_a_batch(rng):
    x, gamma, beta, dy = (rng.normal(size=5) for _ in range(4))
    y, cache = layer_norm_forward(x, gamma, beta)
    y_batch, cache_batch = layer_norm_forward(x[None], gamma, beta)
    assert np.array_equal(y, y_batch[0])
    for alone, batch in zip(layer_norm_backward(dy, cache), layer_norm_backward(dy[None], cache_batch), strict=True):
        np.testing.assert_allclose(alone, batch.reshape(5), rtol=1e-14)


@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_gain_and_bias_must_be_as_wide_as_x(name):
    parts = {"gamma": np.ones(4), "beta": np.ones(4)} | {name: np.ones((1, 4))}
    with pytest.raises(ShapeError, match=name + r": expected \(C,\) = \(4,\), got \(1, 4\)"):
        layer_norm_forward(np.ones((2, 4)), **parts)
