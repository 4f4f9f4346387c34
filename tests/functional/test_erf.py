"""The error function against Python's own, digit by digit, and far out."""

import math

import numpy as np
import pytest

from npformer.functional import erf


def test_agrees_with_math_erf_to_the_last_bits():
    x = np.concatenate([np.linspace(-7, 7, 4001), np.array([0.0, 1e-300, 1e-8, 0.46875, -0.46875, 4.0, 5.999, 6.0])])
    truth = np.array([math.erf(value) for value in x])
    assert np.max(np.abs(erf(x) - truth)) <= 3e-16


def test_small_numbers_keep_their_relative_precision():
    x = np.logspace(-300, -1, 500)
    truth = np.array([math.erf(value) for value in x])
    assert np.max(np.abs(erf(x) / truth - 1)) <= 1e-15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [6.0, 30.0, 1e4, 7e4, 1e6, 1e18, np.inf])
def test_is_one_far_out_without_overflow(dtype, size):
    assert erf(np.array([size, -size], dtype=dtype)).tolist() == [1, -1]
