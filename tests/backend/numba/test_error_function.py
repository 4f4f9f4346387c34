"""erf inside kernels, against the standard library's."""

import math

import numpy as np
import pytest

from npformer.backend.numba.error_function import END_OF_NEAR, error_function


@pytest.fixture(scope="module")
def erf(elementwise):
    """error_function of each number."""
    return elementwise(error_function)


def true_erf(x):
    return np.array([math.erf(v) for v in x.astype(np.float64)])


def test_float32_is_within_3_ulp(erf):
    """With a fused multiply-add or without."""
    seam = END_OF_NEAR + np.arange(-2000, 2000, dtype=np.float32) * np.float32(1e-7)
    x = np.concatenate(
        [np.linspace(-5, 5, 60_001, dtype=np.float32), np.geomspace(1e-30, 1, 5_001).astype(np.float32), seam]
    )
    true = true_erf(x)
    error = np.abs(erf(x) - true) / np.spacing(np.abs(true).astype(np.float32)).astype(np.float64)
    assert np.max(error) < 3
    assert np.max(np.abs(erf(x))) <= 1


def test_float32_is_odd(erf):
    x = np.linspace(0, 6, 10_001, dtype=np.float32)
    assert np.array_equal(erf(-x), -erf(x))


def test_float64_is_the_standard_librarys(erf):
    x = np.linspace(-7, 7, 10_001)
    np.testing.assert_allclose(erf(x), true_erf(x), rtol=3e-16)


def test_the_ends_and_what_is_not_a_number(erf, dtype):
    x = np.array([np.inf, -np.inf, 1e30, -1e30, 4.0, 0.0, -0.0], dtype)
    assert erf(x).tolist() == [1, -1, 1, -1, 1 if dtype == "float32" else math.erf(4), 0, 0]
    tiny = np.array([1e-40, -1e-40, 1e-45], dtype)
    np.testing.assert_allclose(erf(tiny), tiny * (2 / math.sqrt(math.pi)), atol=1.5e-45)
    nothing = np.array([np.nan, np.copysign(np.nan, -1.0), 0.5] * 11, dtype)
    assert np.array_equal(np.isnan(erf(nothing)), np.isnan(nothing))
