"""The maximum of a row inside kernels: by bits in float32, by value in float64."""

import numpy as np
import pytest

from npformer.engine.numba.compiling import inlined
from npformer.engine.numba.maximum import comparable, largest


@inlined
def write_maxima(x, y):
    compared = comparable(x)
    for i in range(x.shape[0]):
        y[i] = largest(compared[i])


def maxima(x):
    """The largest number of each row (N, C)."""
    y = np.full(x.shape[0], 99, x.dtype)
    write_maxima(x, y)
    return y


@pytest.mark.parametrize("width", [1, 2, 7, 16, 33, 100])
def test_it_is_the_maximum(dtype, width):
    rng = np.random.default_rng(width)
    signs = rng.choice([-1, 1], size=(300, width))
    signs[:100], signs[100:200] = -1, 1  # all negative, all positive, mixed
    x = (signs * 10.0 ** rng.uniform(-44, 38, size=(300, width))).astype(dtype)
    assert np.array_equal(maxima(x), x.max(axis=1))


@pytest.mark.parametrize("place", [0, 3, 8])
def test_infinities_zeros_and_denormals(dtype, place):
    for base, value, top in ((-1, np.inf, np.inf), (-np.inf, -5, -5), (-np.inf, -np.inf, -np.inf), (-1e-45, -0.0, 0),
                             (-1, 1e-45, 1e-45), (-2, -1, -1), (0.0, -0.0, 0), (-np.inf, -3e38, -3e38)):  # fmt: skip
        x = np.full((1, 9), base, dtype)
        x[0, place] = value
        assert maxima(x)[0] == np.array(top, dtype), (base, value)


def test_an_empty_row_has_minus_infinity(dtype):
    assert maxima(np.empty((2, 0), dtype)).tolist() == [-np.inf, -np.inf]
    assert maxima(np.empty((0, 3), dtype)).shape == (0,)


def test_a_positive_nan_counts_as_the_largest_in_float32():
    for place in range(9):
        x = np.linspace(-4, 4, 9, dtype=np.float32)[None]
        x[0, place] = np.nan
        assert np.isnan(maxima(x)[0])


def test_a_nan_that_is_not_the_largest_hides_no_number(dtype):
    """Softmax takes the maximum off every score; the NaN itself stays one, whatever the maximum was."""
    x = np.array([[1, np.copysign(np.nan, -1.0), 3, 2]], dtype)
    assert maxima(x)[0] == 3
