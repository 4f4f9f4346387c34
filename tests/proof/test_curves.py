"""The V of every tensor of a report: at the place and along the direction that the report names."""

import numpy as np
import pytest

from npformer.layers import Linear
from npformer.proof import gradcheck
from npformer.proof.curves import v_curves
from npformer.proof.sweep import STEPS

X = np.random.default_rng(0).normal(size=(2, 3))


def pair(factor):
    return lambda x, w: (np.tanh(x) * w, (x, w)), lambda dy, c: (
        dy * c[1] / np.cosh(c[0]) ** 2,
        factor * dy * np.tanh(c[0]),
    )


def test_a_right_gradient_is_a_v_and_a_wrong_one_a_level():
    inputs = X, X + 2
    report = gradcheck(pair(1.01), *inputs, name="mine")
    right, wrong = v_curves(report, pair(1.01), inputs, {})
    assert (right.name, right.verdict, wrong.name, wrong.verdict) == ("mine · x", "right", "mine · w", "WRONG")
    np.testing.assert_array_equal(right.h, STEPS)
    assert right.error[8] < 1e-9 < right.error[2]
    assert right.error[2] / right.error[4] == pytest.approx(100, rel=0.1)  # h²
    np.testing.assert_allclose(wrong.error[:17], report.rows[1].scaled_error, rtol=1e-3)


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("elementwise", [True, False])
def test_the_curve_is_of_the_reports_place(elementwise, seed, numpy64):
    """With another upstream gradient, or another direction, the differences would be of something else."""
    layer = Linear(3, 4, backend=numpy64)
    report = gradcheck(layer, X, elementwise=elementwise, seed=seed)
    for curve in v_curves(report, layer, (X,), {}, seed=seed):
        assert curve.error[8] < 1e-8, curve.name
    assert [curve.name for curve in v_curves(report, layer, (X,), {}, seed=seed)] == [
        f"Linear · {row.tensor}" for row in report.rows
    ]
    other = v_curves(report, layer, (X,), {}, seed=seed + 1)
    assert max(curve.error[8] for curve in other) > 1e-2
