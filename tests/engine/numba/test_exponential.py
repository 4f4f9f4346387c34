"""exp and erf inside kernels: how near they are to the standard library's, also at the ends, and NaN."""

import math

import numpy as np
import pytest

from npformer.engine.numba.compiling import inlined
from npformer.engine.numba.exponential import END_OF_NEAR, error_function, exponential


def elementwise(part):
    """A function of arrays that applies part, a function of one number, to each number."""

    @inlined
    def loop(x, y):
        for i in range(x.size):
            y[i] = part(x[i])

    def apply(x):
        y = np.empty_like(x)
        loop(x, y)
        return y

    return apply


exp, erf = elementwise(exponential), elementwise(error_function)


def true_erf(x):
    return np.array([math.erf(v) for v in x.astype(np.float64)])


def ulps(actual, true):
    """The largest error in units in the last place of float32."""
    return float(np.max(np.abs(actual - true) / np.spacing(np.abs(true).astype(np.float32)).astype(np.float64)))


def test_exp_is_within_2_ulp_on_a_dense_grid():
    near_zero = np.geomspace(1e-45, 1, 20_001).astype(np.float32)
    for x in (np.linspace(-87, 88, 300_001, dtype=np.float32), near_zero, -near_zero):
        assert ulps(exp(x), np.exp(x.astype(np.float64))) < 2


def test_erf_is_within_3_ulp_and_odd():
    """With a fused multiply-add or without."""
    seam = END_OF_NEAR + np.arange(-2000, 2000, dtype=np.float32) * np.float32(1e-7)
    x = np.concatenate(
        [np.linspace(-5, 5, 60_001, dtype=np.float32), np.geomspace(1e-30, 1, 5_001).astype(np.float32), seam]
    )
    assert ulps(erf(x), true_erf(x)) < 3
    assert np.max(np.abs(erf(x))) <= 1
    x = np.linspace(0, 6, 10_001, dtype=np.float32)
    assert np.array_equal(erf(-x), -erf(x))


def test_the_ends_of_exp():
    x = np.array(
        [0.0, -0.0, -np.inf, -1e30, -88, np.nextafter(np.float32(-87), np.float32(-100)), 1e-45, -1e-45], np.float32
    )
    assert exp(x).tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    ends = exp(np.array([-87, 88, 89, 1e30, np.inf], np.float32))
    assert ends[0] >= np.finfo(np.float32).smallest_normal  # never a denormal number
    assert np.all(ends[1:] == ends[1])  # as its docstring says; scores have their maximum taken off first
    assert np.isfinite(ends).all()


def test_the_ends_of_erf(dtype):
    x = np.array([np.inf, -np.inf, 1e30, -1e30, 4.0, 0.0, -0.0], dtype)
    assert erf(x).tolist() == [1, -1, 1, -1, 1 if dtype == "float32" else math.erf(4), 0, 0]
    tiny = np.array([1e-40, -1e-40, 1e-45], dtype)
    np.testing.assert_allclose(erf(tiny), tiny * (2 / math.sqrt(math.pi)), atol=1.5e-45)


@pytest.mark.parametrize("function", [exp, erf])
def test_nan_stays_nan(function, dtype):
    x = np.array([np.nan, np.copysign(np.nan, -1.0), 0.5] * 11, dtype)  # in whole vectors and in the rest
    assert np.array_equal(np.isnan(function(x)), np.isnan(x))


def test_float64_is_the_standard_librarys():
    x = np.concatenate([np.linspace(-745, 709, 10_001), [0.0, -0.0, 5e-324, -np.inf, np.inf, -1e300]])
    np.testing.assert_allclose(exp(x), [math.exp(v) for v in x], rtol=3e-16)
    x = np.linspace(-7, 7, 10_001)
    np.testing.assert_allclose(erf(x), true_erf(x), rtol=3e-16)
