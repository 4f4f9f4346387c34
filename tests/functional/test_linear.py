"""The linear map against sums written out in loops."""

from __future__ import annotations

import numpy as np
import pytest

from npformer.errors import ShapeError
from npformer.functional import linear_backward, linear_forward


def test_values_and_gradients_are_the_sums_of_the_docstring(rng):
    x, weight, bias, dy = rng.normal(size=(5, 3)), rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(5, 4))
    y, cache = linear_forward(x, weight, bias)
    dx, dweight, dbias = linear_backward(dy, cache)
    tokens, ins, outs = range(5), range(3), range(4)
    for n in tokens:
        for j in outs:
            assert y[n, j] == pytest.approx(sum(x[n, i] * weight[i, j] for i in ins) + bias[j], rel=1e-12)
        for i in ins:
            assert dx[n, i] == pytest.approx(sum(dy[n, j] * weight[i, j] for j in outs), rel=1e-12)
    for i in ins:
        for j in outs:
            assert dweight[i, j] == pytest.approx(sum(x[n, i] * dy[n, j] for n in tokens), rel=1e-12)
    assert dbias == pytest.approx(sum(dy[n] for n in tokens), rel=1e-12)


@pytest.mark.parametrize("leading", [(), (1,), (2, 3), (2, 1, 3)])
def test_any_number_of_leading_axes(rng, leading):
    x, weight, bias, dy = rng.normal(size=(*leading, 3)), rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(
        size=(*leading, 4)
    )  # fmt: skip
    y, cache = linear_forward(x, weight, bias)
    dx, dweight, dbias = linear_backward(dy, cache)
    np.testing.assert_allclose(y, np.einsum("...i,ij->...j", x, weight) + bias, rtol=1e-12)
    np.testing.assert_allclose(dx, np.einsum("...j,ij->...i", dy, weight), rtol=1e-12)
    np.testing.assert_allclose(dweight, np.einsum("ni,nj->ij", x.reshape(-1, 3), dy.reshape(-1, 4)), rtol=1e-12)
    np.testing.assert_allclose(dbias, dy.reshape(-1, 4).sum(0), rtol=1e-12)


def test_no_tokens_give_no_output_and_zero_gradients():
    y, cache = linear_forward(np.empty((0, 2, 3)), np.ones((3, 4)), np.ones(4))
    dx, dweight, dbias = linear_backward(y, cache)
    assert y.shape == (0, 2, 4)
    assert dx.shape == (0, 2, 3)
    assert not dweight.any()
    assert not dbias.any()


@pytest.mark.parametrize(
    ("x", "weight", "bias", "message"),
    [
        ((2, 5), (3, 4), (4,), r"x: expected \(\.\.\., C_in=3\), got \(2, 5\)"),
        ((2, 3), (3, 4), (3,), r"bias: expected \(C_out,\) = \(4,\), got \(3,\)"),
        ((2, 3), (3, 4), (1, 4), r"bias: expected \(C_out,\) = \(4,\), got \(1, 4\)"),
        ((), (3, 4), (4,), r"x: expected \(\.\.\., C_in=3\), got \(\)"),
        ((2, 3), (3,), (3,), r"weight: expected \(C_in, C_out\), got \(3,\)"),
    ],
)
def test_widths_that_do_not_meet_are_named(x, weight, bias, message):
    with pytest.raises(ShapeError, match=message):
        linear_forward(np.ones(x), np.ones(weight), np.ones(bias))
