"""What README.md of ``functional`` says that one sees in the derivations, with numbers."""

import itertools
from functools import partial

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.functional.dropout import dropout_backward

H = 1e-30  # of the complex step
GAMMA, BETA = np.array([0.5, -1.3, 2.0, 0.7, 1.1]), np.array([0.1, 0.2, -0.3, 0.4, 0.0])


def jacobian(f, x):
    """J_ji = ∂y_j/∂x_i of y = f(x), one complex step a column."""
    return np.stack([np.imag(f(x + 1j * H * e)) / H for e in np.eye(x.size)], axis=-1)


def test_broadcast_and_sum_are_duals(rng):
    x, weight, dy = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5)), rng.normal(size=(2, 3, 5))
    _, cache = F.linear_forward(x, weight, np.zeros(5))
    np.testing.assert_allclose(F.linear_backward(dy, cache)[2], dy.sum(axis=(0, 1)))  # b went to every token
    dx, df = F.residual_backward(dy, F.residual_forward(dy, dy, None)[1])
    assert np.array_equal(dx, dy)  # both terms get the gradient of the sum
    assert np.array_equal(df, dy)


def test_a_copy_adds_its_gradients(rng):
    x, dtotal, dnormed = rng.normal(size=(3, 2, 5))
    _, cache = F.add_norm_forward(x, np.zeros_like(x), GAMMA, BETA, 1e-5, None)
    back = partial(F.add_norm_backward, cache=cache)
    by_stream, by_norm = back((dtotal, 0 * dnormed))[0], back((0 * dtotal, dnormed))[0]
    np.testing.assert_allclose(back((dtotal, dnormed))[0], by_stream + by_norm, rtol=1e-13)
    assert np.array_equal(by_stream, dtotal)


def test_a_mean_spreads_its_gradient(rng):
    """With an ε so large that r is constant, LayerNorm is u = x − μ alone, and du − mean(du) is what comes back."""
    x, dy, eps = rng.normal(size=(2, 5)), rng.normal(size=(2, 5)), 1e18
    dx, _, _ = F.layer_norm_backward(dy, F.layer_norm_forward(x, np.ones(5), BETA, eps)[1])
    np.testing.assert_allclose(dx * np.sqrt(eps), dy - dy.sum(axis=-1, keepdims=True) / 5, rtol=1e-12)


def test_moving_and_rotating_are_undone(rng):
    x, dheads = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3, 3, 2))
    assert np.array_equal(F.merge_heads(F.split_heads(x, 3)), x)
    assert np.sum(F.split_heads(x, 3) * dheads) == pytest.approx(np.sum(x * F.merge_heads(dheads)))
    y, cache = F.rotary_forward(x)
    np.testing.assert_allclose(F.rotary_backward(y, cache)[0], x, rtol=1e-13)


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


def test_with_eps_a_little_is_left_along_x_hat(rng):
    x, g, eps = rng.normal(size=5), rng.normal(size=5), 0.3
    _, (x_hat, r, _) = cached = F.layer_norm_forward(x, np.ones(5), BETA, eps)
    dx, _, _ = F.layer_norm_backward(g, cached[1])
    assert x_hat @ dx == pytest.approx(eps * float(r[0]) ** 3 * (x_hat @ g), rel=1e-12)


def test_softmax_has_a_symmetric_jacobian_that_fades_as_a_row_saturates(rng):
    x, sizes = rng.normal(size=6), []
    for size in (1.0, 8.0, 64.0):
        y = F.softmax_forward(size * x)[0]
        j = jacobian(lambda x: F.softmax_forward(x)[0], size * x)
        np.testing.assert_allclose(j, np.diag(y) - np.outer(y, y), rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(j @ np.ones(6), 0, atol=1e-15)
        sizes.append(np.max(np.abs(j)))
    assert 0.25 >= sizes[0] > 2 * sizes[1] > 1e6 * sizes[2]


@pytest.mark.parametrize(("dtype", "alive", "dead"), [(np.float64, 708, 746), (np.float32, 87, 104)])
def test_a_visible_entry_far_below_the_top_underflows_to_0(dtype, alive, dead):
    """In between are the subnormal numbers, which some processors flush to 0."""
    y, _ = F.softmax_forward(np.array([0, -alive, -dead], dtype))
    assert y[1] > 0
    assert y[2] == 0


def test_the_root_of_d_keeps_the_scores_at_variance_1_if_entries_have_mean_0():
    """Keys are all vectors of two numbers, and so are queries; with mean 1 the variance is 2 on average."""
    for shift, variance in ((0.0, 1), (1.0, 2)):
        for width in (1, 2, 3):
            vectors = shift + np.array([[list(itertools.product([-1.0, 1.0], repeat=width))]])
            scores = np.log(F.attention_weights(vectors, vectors))  # but for a number that all keys of a query share
            assert np.mean(np.var(scores, axis=-1)) == pytest.approx(variance)


def test_softmax_and_the_loss_meet_in_p_minus_q(rng):
    logits, targets = 5 * rng.normal(size=(3, 7)), np.array([4, 0, 2])
    _, cache = F.cross_entropy_forward(logits, targets, None, label_smoothing=0.1)
    (dlogits,) = F.cross_entropy_backward(1.0, cache)
    for p, q, dz in zip(cache.p, cache.q, dlogits, strict=True):
        np.testing.assert_allclose((np.diag(p) - np.outer(p, p)) @ (-q / p), p - q, atol=1e-12)
        np.testing.assert_allclose(len(logits) * dz, p - q, atol=1e-15)


def test_a_loss_that_is_sure_and_wrong_still_has_a_gradient():
    """The saturated softmax alone passes nothing; with the loss almost 1."""
    logits = np.array([[0.0, 40.0]])
    _, cache = F.cross_entropy_forward(logits, np.array([0]), None)
    np.testing.assert_allclose(F.cross_entropy_backward(1.0, cache)[0], [[-1, 1]])
    assert np.max(np.abs(F.softmax_backward(np.array([[1.0, 0.0]]), F.softmax_forward(logits)[1])[0])) < 1e-16


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


def test_a_bias_of_all_keys_has_gradient_0_unless_they_are_rotated(rng):
    q, k, v, dout = rng.normal(size=(4, 2, 3, 5, 4))
    draw = F.Draw(1, 2, 3, 4, 0.4)
    _, cache = F.attention_forward(q, k, v, F.AttentionMask(causal=True), draw)
    assert np.max(np.abs(F.attention_backward(dout, cache)[1].sum(axis=2))) < 1e-14
    (turned_q, _), (turned_k, turn) = F.rotary_forward(q), F.rotary_forward(k)
    _, cache = F.attention_forward(turned_q, turned_k, v, F.AttentionMask(causal=True), draw)
    (dk,) = F.rotary_backward(F.attention_backward(dout, cache)[1], turn)
    assert np.max(np.abs(dk.sum(axis=2))) > 0.01
    _, linear = F.linear_attention_forward(q, k, v)
    assert np.max(np.abs(F.linear_attention_backward(dout, linear)[1].sum(axis=2))) > 0.01


def test_the_gradient_of_a_gated_unit_is_multiplied_by_z_at_each_step(rng):
    """Without U only dh·z goes back: over all steps, the product of the z's."""
    x, start, weight = rng.normal(size=(2, 6, 3)), rng.normal(size=(2, 4)), rng.normal(size=(3, 12))
    _, cache = F.gru_forward(x, start, weight, np.zeros(12), np.zeros((4, 12)), np.zeros(12))
    dy = np.zeros((2, 6, 4))
    dy[:, -1] = rng.normal(size=(2, 4))
    dstart = F.gru_backward(dy, cache)[1]
    z = 1 / (1 + np.exp(-(x @ weight)[..., 4:8]))
    np.testing.assert_allclose(dstart, dy[:, -1] * np.prod(z, axis=1), rtol=1e-12)
