"""exp inside kernels: within 2 units in the last place, and what it says at the ends and for what is no number."""

import math

import numpy as np
import pytest

from npformer.backend.numba.exponential import exponential


@pytest.fixture(scope="module")
def exp(elementwise):
    """exponential of each number."""
    return elementwise(exponential)


def ulps(found, x):
    """The largest error in units in the last place of float32."""
    true = np.exp(x.astype(np.float64))
    return float(np.max(np.abs(found - true) / np.spacing(true.astype(np.float32)).astype(np.float64), initial=0.0))


def test_float32_is_within_2_ulp_on_a_dense_grid(exp):
    near_zero = np.geomspace(1e-45, 1, 200_001).astype(np.float32)
    for x in (np.linspace(-87, 88, 2_000_001, dtype=np.float32), near_zero, -near_zero):
        assert ulps(exp(x), x) < 2


def test_where_the_power_of_two_changes(exp):
    """Around (n + ½)·ln 2 the polynomial is used at its ends, where it is worst."""
    centres = ((np.arange(-125, 126) + 0.5) * math.log(2)).astype(np.float32)
    x = (centres[:, None].view(np.int32) + np.arange(-50, 51, dtype=np.int32)).view(np.float32).reshape(-1)
    assert ulps(exp(x), x) < 2


def test_it_never_falls_in_softmaxs_range(exp):
    """Up to its error: a larger score never gets a noticeably smaller weight."""
    x = np.linspace(-90, 0, 1_000_001, dtype=np.float32)
    y = exp(x).astype(np.float64)
    assert np.all(y[1:] >= y[:-1] * (1 - 3 * np.finfo(np.float32).eps))


def test_the_ends(exp):
    x = np.array(
        [0.0, -0.0, -np.inf, -1e30, -88, np.nextafter(np.float32(-87), np.float32(-100)), 1e-45, -1e-45], np.float32
    )
    assert exp(x).tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    ends = exp(np.array([-87, 88, 89, 1e30, np.inf], np.float32))
    assert ends[0] >= np.finfo(np.float32).smallest_normal  # never a denormal number
    assert np.all(ends[1:] == ends[1])  # as its docstring says; scores have their maximum taken off first
    assert np.isfinite(ends).all()


def test_nan_stays_nan(exp, dtype):
    x = np.array([np.nan, np.copysign(np.nan, -1.0), 1.0] * 11, dtype)  # in whole vectors and in the rest
    assert np.array_equal(np.isnan(exp(x)), np.isnan(x))


def test_float64_is_the_standard_librarys(exp):
    x = np.concatenate([np.linspace(-745, 709, 10_001), [0.0, -0.0, 5e-324, -np.inf, np.inf, -1e300]])
    np.testing.assert_allclose(exp(x), [math.exp(v) for v in x], rtol=3e-16)
