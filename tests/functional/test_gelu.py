"""GELU: the exact form, with the derivative of the exact form."""

import math

import numpy as np
import pytest

from npformer.functional import gelu_backward, gelu_forward


def test_is_not_the_tanh_form():
    x = np.array([0.5, 1.0, 2.0, -2.0])
    tanh_form = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    assert np.all(np.abs(gelu_forward(x)[0] - tanh_form) > 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_out_it_is_relu_without_warnings(dtype):
    x = np.array([1e4, -1e4, 1e6, -1e6, 1e18, -1e18], dtype=dtype)
    y, cache = gelu_forward(x)
    (dx,) = gelu_backward(np.ones_like(x), cache)
    assert y.tolist() == np.maximum(x, 0).tolist()
    assert dx.tolist() == [1, 0, 1, 0, 1, 0]
