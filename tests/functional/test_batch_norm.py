"""BatchNorm: a two-pass reference, padding that moves nothing, and what inference does instead."""

import math

import numpy as np
import pytest

from npformer.functional import (
    batch_norm_backward,
    batch_norm_forward,
)

COUNTS = np.array([[True, True, True], [True, False, False]])


@pytest.fixture
def inputs(rng):
    """x (2, 3, 4), gamma, beta (4,), dy (2, 3, 4)."""
    return tuple(rng.normal(size=shape) for shape in ((2, 3, 4), 4, 4, (2, 3, 4)))


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_values_column_by_column(inputs, counts):
    x, gamma, beta, _ = inputs
    y, cache = batch_norm_forward(x, gamma, beta, counts, 0.02)
    for c in range(4):
        column = (x[..., c] if counts is None else x[counts][:, c]).ravel().tolist()
        mean = math.fsum(column) / len(column)
        variance = math.fsum((value - mean) ** 2 for value in column) / len(column)
        expected = gamma[c] * (x[..., c] - mean) / math.sqrt(variance + 0.02) + beta[c]
        np.testing.assert_allclose(y[..., c], expected, rtol=1e-12, atol=1e-14)
        assert (float(cache.mean[c]), float(cache.variance[c])) == pytest.approx((mean, variance), rel=1e-12)


def test_a_large_mean_costs_no_digits(inputs):
    x, gamma, beta, _ = inputs
    y, _ = batch_norm_forward(x, gamma, beta)
    np.testing.assert_allclose(batch_norm_forward(x + 1e6, gamma, beta)[0], y, atol=1e-8)


def test_padding_moves_no_statistic_and_gets_no_share_of_them(inputs):
    x, gamma, beta, dy = inputs
    dy = np.where(COUNTS[..., None], dy, 0)
    spoilt = np.where(COUNTS[..., None], x, 1e3)
    y, cache = batch_norm_forward(x, gamma, beta, COUNTS)
    other, other_cache = batch_norm_forward(spoilt, gamma, beta, COUNTS)
    assert np.array_equal(y[COUNTS], other[COUNTS])
    actual, again = batch_norm_backward(dy, cache), batch_norm_backward(dy, other_cache)
    assert all(np.array_equal(a, b) for a, b in zip(actual, again, strict=True))
    assert not actual[0][~COUNTS].any()


def test_a_batch_of_padding_alone_is_finite(inputs):
    x, gamma, beta, dy = inputs
    y, cache = batch_norm_forward(x, gamma, beta, np.zeros((2, 3), dtype=bool))
    assert not cache.mean.any()
    assert not cache.variance.any()
    assert np.isfinite(y).all()
    assert all(np.isfinite(part).all() for part in batch_norm_backward(dy, cache))
