"""Softmax: hidden entries, rows of nothing, saturation. Its values are held against Python's exp in the museum."""

import numpy as np
import pytest

from npformer.functional import softmax_backward, softmax_forward


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_scores_neither_overflow_nor_warn(dtype):
    y, cache = softmax_forward(np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]], dtype=dtype))
    (dx,) = softmax_backward(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], dtype=dtype), cache)
    assert y[0].tolist() == [1, 0, 0]
    assert y[1] == pytest.approx([1 / 3] * 3, rel=1e-6)
    assert dx[0].tolist() == [0, 0, 0]
    assert dx[1] == pytest.approx([-1 / 3, 0, 1 / 3], rel=1e-6, abs=1e-7)
