"""What README.md of ``functional`` says that one sees in the derivations, with numbers."""

import itertools

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.functional.dropout import dropout_backward


@pytest.mark.parametrize("width", [2, 3, 5])
def test_layer_norm_projects_off_1_and_x_hat(rng, width):
    x, g, ones = rng.normal(size=width), rng.normal(size=width), np.ones(width)
    _, (x_hat, r, _) = cached = F.layer_norm_forward(x, ones, 0 * ones, 0.0)
    projector = np.eye(width) - np.outer(ones, ones) / width - np.outer(x_hat, x_hat) / width
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-14)
    assert np.linalg.matrix_rank(projector, tol=1e-10) == width - 2
    assert abs(np.mean(x_hat)) < 1e-15, "so ∂σ²/∂μ is 0, and the mean inside the variance needs no term of its own"
    dx, _, _ = F.layer_norm_backward(g, cached[1])
    np.testing.assert_allclose(dx, r * (projector @ g), atol=1e-13 * np.max(r))
    if width == 2:
        np.testing.assert_allclose(np.abs(x_hat), 1, rtol=1e-14)
        assert np.max(np.abs(dx)) < 1e-13 * float(r[0])


@pytest.mark.parametrize(("dtype", "alive", "dead"), [(np.float64, 708, 746), (np.float32, 87, 104)])
def test_a_visible_entry_far_below_the_top_underflows_to_0(dtype, alive, dead):
    """In between are the subnormal numbers, which some processors flush to 0."""
    y, _ = F.softmax_forward(np.array([0, -alive, -dead], dtype))
    assert y[1] > 0
    assert y[2] == 0


def test_softmax_and_the_loss_meet_in_p_minus_q(rng):
    logits, targets = 5 * rng.normal(size=(3, 7)), np.array([4, 0, 2])
    _, cache = F.cross_entropy_forward(logits, targets, None, label_smoothing=0.1)
    (dlogits,) = F.cross_entropy_backward(1.0, cache)
    for p, q, dz in zip(cache.p, cache.q, dlogits, strict=True):
        np.testing.assert_allclose((np.diag(p) - np.outer(p, p)) @ (-q / p), p - q, atol=1e-12)
        np.testing.assert_allclose(len(logits) * dz, p - q, atol=1e-15)


@pytest.mark.parametrize("draw", [None, F.Draw(1, 2, 3, 4, 0.4)])
def test_the_mean_that_softmax_subtracts_is_the_sum_of_dout_times_out(rng, draw):
    q, k, v, dout = (rng.normal(size=(2, 3, length, 4)) for length in (5, 6, 6, 5))
    out, cache = F.attention_forward(q, k, v, F.AttentionMask(causal=True), draw)
    (dweights,) = dropout_backward(dout @ np.matrix_transpose(v), cache.dropout)
    by_weights = np.sum(dweights * cache.softmax.y, axis=-1)
    np.testing.assert_allclose(by_weights, np.sum(dout * out, axis=-1), rtol=1e-11, atol=1e-14)


def test_residual_sums_are_paths(rng):
    """(I + J_3)(I + J_2)(I + J_1) is the sum over all 8 ways to take some of the J's; backward is its transpose."""
    weights, x = 0.5 * rng.normal(size=(3, 4, 4)), rng.normal(size=(1, 4))
    jacobians = [weight.T for weight in weights]  # of x W, for a column x
    paths = np.zeros((4, 4))
    for chosen in itertools.product([False, True], repeat=3):
        path = np.eye(4)
        for j in itertools.compress(jacobians, chosen):
            path = j @ path
        paths += path
    caches = []
    for weight in weights:
        f, linear = F.linear_forward(x, weight, np.zeros(4))
        x, residual = F.residual_forward(x, f, None)
        caches.append((linear, residual))
    dx = dy = rng.normal(size=(1, 4))
    for linear, residual in reversed(caches):
        dx, df = F.residual_backward(dx, residual)
        dx = dx + F.linear_backward(df, linear)[0]
    np.testing.assert_allclose(dx[0], paths.T @ dy[0], rtol=1e-12)
