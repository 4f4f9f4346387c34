"""A check that could not have failed is refused, or proves nothing; each rule has its sentence."""

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.look import random_upstreams
from npformer.check.report import NOTHING, RIGHT, UNCLEAR, WRONG
from npformer.check.subject import Subject
from npformer.check.vacuity import WIDEST_TOLERANCE, refuse_length_one, refuse_wide, why_blind
from npformer.errors import ConfigError, ShapeError
from tests.check.functions import LOG, normal, tanh, verdict, verdicts


def test_tolerances(product, a, b):
    refuse_wide(1e-10)
    refuse_wide(WIDEST_TOLERANCE)
    for tolerance in (0, -1e-3, 0.11, float("nan"), float("inf")):
        with pytest.raises(ConfigError) as caught:
            gradcheck(product, a, b, tolerance=tolerance)
        assert str(caught.value) == (
            f"tolerance: expected 0 < tolerance <= 0.1, got {tolerance}; "
            "with a wider one a gradient twice too large would pass, and the check prove nothing"
        )


@pytest.mark.parametrize(("shape", "axis"), [((1, 4), 0), ((2, 3, 1, 4), 2)])
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
    checked = Subject(pair, (np.zeros((3, 4)),), {}, None)
    first, second = random_upstreams(checked, 0)[0]
    assert first.shape == second.shape == (3, 4)
    assert np.unique([first, second, random_upstreams(checked, 1)[0][0], np.eye(3, 4)]).size == 3 * 12 + 2
    np.testing.assert_array_equal(first, random_upstreams(checked, 0)[0][0])


def rows_of_nothing(x):
    """A softmax of rows of which the second sees nothing, and a sum that is always finite."""
    seen = np.where(np.arange(3)[:, None] == 1, -np.inf, x)
    powers = np.exp(seen - seen.max(axis=-1, keepdims=True))
    y = powers / powers.sum(axis=-1, keepdims=True)
    return (x.sum(), y), y


NOT_FINITE = {
    "log of a negative number": (
        LOG,
        [np.array([2.0, -1.0, 3.0])],
        "output 0[1] is nan, as 1 of 3 entries are not finite; with another number for x[1] = -1 it is finite",
    ),
    "log of 0": (
        LOG,
        [np.array([[2.0, 1.0, 3.0], [0.5, 0.0, 0.0]])],
        "output 0[1, 1] is -inf, as 2 of 6 entries are not finite; with another number for x[1, 1] = 0 it is finite",
    ),
    "of a number": (
        (lambda x, y: (np.log(x - 2) + y.sum(), (x, y.shape)), lambda dy, c: (dy / (c[0] - 2), np.full(c[1], dy))),
        [np.array(2.0), np.array([1.0, np.nan])],
        "output 0 is nan, as 1 of 1 entries are not finite",
    ),
    "rows of nothing": (
        (rows_of_nothing, lambda dy, y: dy[0] + y * (dy[1] - np.sum(dy[1] * y, axis=-1, keepdims=True))),
        [normal(3, 4)],
        "output 1[1, 0] is nan, as 4 of 12 entries are not finite",
    ),
}


@pytest.mark.parametrize("case", NOT_FINITE)
def test_where_the_forward_is_not_finite_there_is_no_verdict(case):
    pair, inputs, text = NOT_FINITE[case]
    with np.errstate(all="ignore"):
        report = gradcheck(pair, *inputs)
    assert set(verdicts(report).values()) == {UNCLEAR}
    assert {row.note for row in report.rows} == {"forward is not finite here"}
    assert report.problems == (f"forward is not finite here: {text}; choose inputs at which every output is finite",)
    assert not report.ok
    assert not any(row.cause or row.diagnosis for row in report.rows)
    assert report.lines()[1].split()[-6:] == ["–", "–", "–", "–", "–", "note:"] or len(report.rows) > 1
    assert report.to_dict()["tensors"][0]["analytic"] is None


@pytest.mark.parametrize(("place", "is_named"), [(99, True), (100, False)])
def test_the_entry_to_change_is_looked_for_among_the_first_hundred(place, is_named):
    x = np.ones(101) + np.arange(101)
    x[place] = -1
    with np.errstate(all="ignore"):
        (problem,) = gradcheck(LOG, x).problems
    assert (f"; with another number for x[{place}] = -1 it is finite" in problem) == is_named


def test_a_backward_that_is_not_finite_where_the_forward_is_stays_wrong():
    pair = (lambda x: (x * x, x), lambda dy, x: 2 * dy * x / (x != x[0]))
    with np.errstate(all="ignore"):
        row = gradcheck(pair, np.array([0.5, 0.7, 0.9])).rows[0]
    assert (row.verdict, row.cause) == (WRONG, "not finite")


def test_a_point_that_is_not_finite_among_others_is_named():
    with np.errstate(all="ignore"):
        report = gradcheck(LOG, np.array([0.5, 0.7]), sample=lambda rng: [-rng.uniform(1, 2, size=2)])
    assert (report.rows[0].verdict, report.rows[0].note) == (UNCLEAR, "forward is not finite here; at sample 1")
    assert report.problems[0].endswith("choose inputs at which every output is finite (at sample 1)")
