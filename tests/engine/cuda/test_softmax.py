"""Softmax on a GPU: hidden entries, rows in which nothing is visible, and NaN."""

import numpy as np
import pytest

from npformer.backend import PLAIN


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2, 3, 5), (4, 131), (0, 3), (3, 1500)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_it_equals_the_plain_pair(agree, dtype, shape, scale):
    rng = np.random.default_rng(0)
    x = (scale * rng.normal(size=(*shape[:-1], 2 * shape[-1]))).astype(dtype)[..., ::2]
    assert agree("softmax", x)
    assert agree("softmax", x, rng.random(shape) > 0.5)
    assert agree("softmax", x, rng.random(shape[-1:]) > 0.5)
    assert agree("softmax", x, np.zeros(shape, bool))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_are_those_of_the_plain_pair(table, dtype, value):
    x = np.random.default_rng(0).normal(size=(3, 50)).astype(dtype)
    x[1, 43] = value
    with np.errstate(all="ignore"):
        found, true = (ops.softmax.forward(x)[0] for ops in (table, PLAIN))
    np.testing.assert_allclose(found, true, rtol=1e-5)
    assert np.isfinite(found).all(axis=1).tolist() == [True, value == -np.inf, True]
