"""LayerNorm: values by Python sums, and what its gradient cannot contain."""

import math

import numpy as np
import pytest

from npformer.functional import layer_norm_backward, layer_norm_forward


def test_values_row_by_row(rng):
    x, gamma, beta, eps = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=5), 0.02
    y, _ = layer_norm_forward(x, gamma, beta, eps)
    for row, out in zip(x.tolist(), y, strict=True):
        mean = math.fsum(row) / 5
        variance = math.fsum((value - mean) ** 2 for value in row) / 5  # over C, not C − 1
        root = math.sqrt(variance + eps)  # eps inside the root
        assert out == pytest.approx([g * (v - mean) / root + b for v, g, b in zip(row, gamma, beta, strict=True)])


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
