"""A check that could not have failed is refused, or proves nothing; each rule has its sentence."""

import numpy as np
import pytest

from npformer.errors import ConfigError, ShapeError
from npformer.proof import gradcheck
from npformer.proof.one_point import random_upstreams
from npformer.proof.report import NOTHING, RIGHT, WRONG
from npformer.proof.subject import subject
from npformer.proof.vacuity import WIDEST_TOLERANCE, refuse_length_one, refuse_wide, why_blind
from tests.proof.functions import tanh, verdict, verdicts


def test_tolerances(product, a, b):
    refuse_wide(1e-10)
    refuse_wide(WIDEST_TOLERANCE)
    for tolerance in (0, 0.0, -1e-3, -1.0, 0.11, 0.2, 1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError) as caught:
            gradcheck(product, a, b, tolerance=tolerance)
        assert str(caught.value) == (
            f"tolerance: expected 0 < tolerance <= 0.1, got {tolerance}; "
            "with a wider one a gradient twice too large would pass, and the check prove nothing"
        )


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 4), 0), ((1, 3, 4), 0), ((2, 1, 4), 1), ((2, 3, 1, 4), 2), ((1, 1, 4), 0)]
)
def test_lengths_of_one(shape, axis, product):
    with pytest.raises(ShapeError) as caught:
        gradcheck(product, np.zeros((2, 3)), np.zeros(shape))
    assert str(caught.value) == (
        f"b: expected at least 2 along axis {axis}, got shape {shape}: a sum or a transposition that is missing there "
        "would not show; use longer inputs, or say allow_length_one=True"
    )
    assert verdict(tanh(), np.array([[0.6, -0.8, 1.1]]), allow_length_one=True) == RIGHT


def test_lengths_that_are_no_harm():
    harmless = (np.zeros((2, 3)), np.zeros(1), np.zeros(()), np.zeros((3, 1)), 7, None, "post")
    refuse_length_one(harmless, [str(i) for i in range(len(harmless))])


def test_why_blind():
    x = np.array([1.0, 2.0])
    assert why_blind({"x": x}) == ""
    assert why_blind({"x": x, "gamma": np.ones(3)}) == "gamma is 1 everywhere; use random numbers"
    assert why_blind({"x": np.zeros((2, 2))}) == "x is 0 everywhere; use random numbers"
    assert why_blind({"x": np.array([3.0])}) == ""  # one number is no constant


def test_the_note_stands_beside_every_gradient_that_would_have_passed():
    pair = (lambda x, gamma: (x * gamma, (x, gamma)), lambda dy, cache: (dy * cache[1], 2 * dy * cache[0]))
    report = gradcheck(pair, np.array([0.5, 0.7]), np.ones(2))
    assert verdicts(report) == {"x": NOTHING, "gamma": WRONG}
    assert report.rows[0].note == "gamma is 1 everywhere; use random numbers"


def test_the_upstream_gradient_is_random():
    """All ones would give a softmax, whose outputs sum to 1, a gradient of 0 whatever its kernel."""
    pair = (lambda x: ((x, 2 * x), None), lambda dy, _: dy[0] + 2 * dy[1])
    checked = subject(pair, (np.zeros((3, 4)),), {}, None)
    first, second = random_upstreams(checked, 0)[0]
    for upstream in (first, second):
        assert upstream.shape == (3, 4)
        assert np.unique(upstream).size == 12
        assert not np.any(np.isin(upstream, (0, 1)))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, random_upstreams(checked, 1)[0][0])
    np.testing.assert_array_equal(first, random_upstreams(checked, 0)[0][0])
