"""The linear map against the sums of its docstring, for any number of leading axes and for no tokens."""

import numpy as np
import pytest

from npformer.functional import linear_backward, linear_forward


@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (2, 1, 3), (0, 2)])
def test_values_and_gradients_are_the_sums_of_the_docstring(leading, rng):
    x, weight, bias, dy = (rng.normal(size=size) for size in ((*leading, 3), (3, 4), 4, (*leading, 4)))
    y, cache = linear_forward(x, weight, bias)
    dx, dweight, dbias = linear_backward(dy, cache)
    assert (y.shape, dx.shape) == (dy.shape, x.shape)
    np.testing.assert_allclose(y, np.einsum("...i,ij->...j", x, weight) + bias, rtol=1e-12)
    np.testing.assert_allclose(dx, np.einsum("...j,ij->...i", dy, weight), rtol=1e-12)
    np.testing.assert_allclose(dweight, np.einsum("ni,nj->ij", x.reshape(-1, 3), dy.reshape(-1, 4)), rtol=1e-12)
    np.testing.assert_allclose(dbias, dy.reshape(-1, 4).sum(0), rtol=1e-12)
