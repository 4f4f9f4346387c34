"""Softmax: values by Python's exp, the Jacobian written out, rows of nothing, saturation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import softmax_backward, softmax_forward


def test_values_are_powers_over_their_sum():
    row = [0.3, -1.2, 2.5, 0.0]
    y, _ = softmax_forward(np.array([row]))
    powers = [math.exp(score) for score in row]
    assert y[0] == pytest.approx([power / sum(powers) for power in powers], rel=1e-14)


def test_the_gradient_is_the_jacobian_times_dy(rng):
    y, cache = softmax_forward(rng.normal(size=(3, 5)))
    dy = rng.normal(size=(3, 5))
    (dx,) = softmax_backward(dy, cache)
    for weights, gradient, upstream in zip(y, dx, dy, strict=True):
        jacobian = np.diag(weights) - np.outer(weights, weights)
        np.testing.assert_allclose(gradient, jacobian @ upstream, rtol=1e-12, atol=1e-15)


def test_a_shift_of_a_row_changes_nothing_and_rows_of_dx_sum_to_0(rng):
    x, dy = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    y, cache = softmax_forward(x)
    shifted, _ = softmax_forward(x + np.array([[1.0], [-50.0], [1e3], [0.25]]))
    np.testing.assert_allclose(shifted, y, rtol=1e-12)
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-14)
    (dx,) = softmax_backward(dy, cache)
    assert np.max(np.abs(dx)) > 0.05
    np.testing.assert_allclose(dx.sum(-1), 0, atol=1e-15)


def test_the_gradient_is_not_divided_by_the_batch(rng):
    x, dy = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    (together,) = softmax_backward(dy, softmax_forward(x)[1])
    alone = [softmax_backward(dy[i : i + 1], softmax_forward(x[i : i + 1])[1])[0][0] for i in range(4)]
    assert np.array_equal(together, alone)


def test_hidden_entries_get_weight_0_and_gradient_0_whatever_they_hold(rng):
    visible = np.array([[True, False, True, False]])
    x = rng.normal(size=(3, 4))
    y, cache = softmax_forward(x, visible)
    reference, _ = softmax_forward(x[:, [0, 2]])
    np.testing.assert_allclose(y[:, [0, 2]], reference, rtol=1e-14)
    assert not y[:, [1, 3]].any()
    (dx,) = softmax_backward(rng.normal(size=(3, 4)), cache)
    assert not dx[:, [1, 3]].any()
    poisoned = np.where(visible, x, np.array([[0, 1e30, 0, np.nan]]))
    assert np.array_equal(softmax_forward(poisoned, visible)[0], y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_of_nothing_has_weights_0_and_gradient_0(rng, dtype):
    x = rng.normal(size=(2, 3)).astype(dtype)
    y, cache = softmax_forward(x, np.array([[False], [True]]))
    (dx,) = softmax_backward(rng.normal(size=(2, 3)).astype(dtype), cache)
    assert not y[0].any()
    assert not dx[0].any()
    assert y[1].sum() == pytest.approx(1, rel=1e-6)
    assert dx[1].any()


def test_a_row_of_minus_infinity_is_a_row_of_nothing():
    y, cache = softmax_forward(np.array([[-np.inf, -np.inf], [-np.inf, 2.0]]))
    assert y.tolist() == [[0, 0], [0, 1]]
    assert softmax_backward(np.array([[1.0, 2.0], [3.0, 4.0]]), cache)[0].tolist() == [[0, 0], [0, 0]]


def test_length_1_has_weight_1_and_gradient_0():
    y, cache = softmax_forward(np.array([[7.0], [-3.0]]))
    (dx,) = softmax_backward(np.array([[2.0], [5.0]]), cache)
    assert y.tolist() == [[1], [1]]
    assert dx.tolist() == [[0], [0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_scores_neither_overflow_nor_warn(dtype):
    y, cache = softmax_forward(np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], dtype=dtype))
    (dx,) = softmax_backward(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], dtype=dtype), cache)
    assert y[0].tolist() == [1, 0, 0]
    assert y[1] == pytest.approx([1 / 3] * 3, rel=1e-6)
    assert dx[0].tolist() == [0, 0, 0]
    assert dx[1] == pytest.approx([-1 / 3, 0, 1 / 3], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (5, 3, 1), (2, 5, 2, 3)])
def test_visible_must_fit_x(shape):
    with pytest.raises(ShapeError, match=r"visible: expected a shape that broadcasts to x \(5, 2, 3\), got \("):
        softmax_forward(np.ones((5, 2, 3)), np.ones(shape, dtype=bool))
