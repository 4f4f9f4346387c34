"""A sweep over step sizes tells right from wrong, sees a kink, and says so if it cannot tell; the V of each tensor."""

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.curves import v_curves
from npformer.check.report import KINK, RIGHT, UNCLEAR, WRONG
from npformer.check.sweep import STEPS, kink, sweep
from npformer.layers import Linear
from tests.check.functions import forward_alone, normal, normals

UPSTREAM = np.array([0.7, -1.3, 0.4])
FIRST = np.array([1.0, 0.0, 0.0])
X = np.array([0.6, -0.8, 1.1])


def swept(forward, x=X):
    """The sweep of L = Σ UPSTREAM·forward(x) along the first axis."""
    return sweep(forward_alone(lambda x: forward(x), x), "x", FIRST, (UPSTREAM,))


def judged(sweep, *claims, scale=1.0):
    """The verdicts on claims of a slope."""
    return [sweep.verdict(claim, scale, 1e-7) for claim in claims]


def in_float32(forward):
    return lambda x: forward(x.astype(np.float32)).astype(np.float64)


SMOOTH = {
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "exp": (np.exp, np.exp),
    "linear": (lambda x: 1.7 * x, lambda x: 1.7 + 0 * x),
    "sin 9x": (lambda x: np.sin(9 * x), lambda x: 9 * np.cos(9 * x)),
}
each_smooth = pytest.mark.parametrize("name", SMOOTH)


@each_smooth
def test_the_slope_of_a_smooth_function_settles_and_right_and_wrong_ones_are_told(name):
    forward, derivative = SMOOTH[name]
    sweep = swept(forward)
    truth = float(UPSTREAM[0] * derivative(X)[0])
    assert sweep.slope == pytest.approx(truth, rel=1e-8)
    assert abs(sweep.slope - truth) <= sweep.noise < 1e-7 * abs(truth)
    assert abs(sweep.jump) < 1e-6
    assert judged(sweep, truth, 1.00001 * truth, -truth, np.nan, scale=abs(truth)) == [RIGHT, WRONG, WRONG, WRONG]


def test_the_error_is_a_v():
    sweep = swept(np.exp)
    error = np.abs(sweep.central - UPSTREAM[0] * np.exp(X[0]))
    assert error[2] / error[4] == pytest.approx(100, rel=0.1)  # h², at h = 1e-2 and 1e-3
    assert error[8] < 1e-9 < error[-4:].max()  # 1e-5 is better than the smallest
    np.testing.assert_array_equal(sweep.central, (sweep.right + sweep.left) / 2)


def test_no_slope_at_all():
    flat = swept(lambda x: 0 * x)
    assert (flat.slope, flat.noise, flat.jump) == (0, 0, 0)
    assert judged(flat, 0.0, 0.01) == [RIGHT, WRONG]
    assert judged(swept(np.cos, np.array([0.0, 1.0, 2.0])), 0.0, 1e-5) == [RIGHT, WRONG]


def relu(x):
    return np.where(x > 0, x, 0) + 0.2 * x**2


def test_a_kink_at_the_very_point():
    sweep = swept(relu, np.array([0.0, -0.8, 1.1]))
    assert sweep.jump == pytest.approx(UPSTREAM[0])
    assert judged(sweep, 0.0, 0.5 * UPSTREAM[0], UPSTREAM[0]) == [KINK] * 3


def test_a_kink_is_told_with_the_slopes_to_the_left_and_to_the_right():
    at = forward_alone(lambda x: np.where(x > 0, 3 * x, x), np.array([0.0, -0.8, 1.1]))
    assert kink(at, "x", FIRST, (UPSTREAM,)) == "by a sweep of h, the slopes are 0.7 and 2.1"
    assert kink(at, "x", np.roll(FIRST, 1), (UPSTREAM,)) == ""


@pytest.mark.parametrize("distance", [1e-6, -1e-6, 0.05])
def test_beside_a_kink_there_is_a_slope(distance):
    sweep = swept(relu, np.array([distance, -0.8, 1.1]))
    truth = UPSTREAM[0] * ((distance > 0) + 0.4 * distance)
    assert judged(sweep, truth, truth + 0.5) == [RIGHT, WRONG]


def test_float32_inside_cannot_tell_and_never_accuses():
    """Three coarse differences agree by luck now and then; that must not make a right slope WRONG."""
    draw, verdicts = normals(), []
    for forward, derivative in SMOOTH.values():
        for _ in range(20):
            x = draw(3)
            truth = float(UPSTREAM[0] * derivative(x)[0])
            verdicts += judged(swept(in_float32(forward), x), truth, scale=abs(truth))
    assert set(verdicts) == {UNCLEAR}


def test_float32_inside_still_shows_what_is_badly_wrong_and_where_a_kink_is():
    assert judged(swept(in_float32(lambda x: 1.7 * x)), 2 * 1.7 * UPSTREAM[0]) == [WRONG]
    assert judged(swept(in_float32(relu), np.array([0.0, -0.8, 1.1])), 0.0) == [KINK]


def test_a_claim_beyond_three_times_the_noise_is_wrong():
    sweep = swept(in_float32(np.tanh))
    claims = (sweep.slope + factor * sweep.noise for factor in (2.9, 3.1))
    assert judged(sweep, *claims, scale=1e5 * sweep.noise) == [UNCLEAR, WRONG]


def test_large_steps_may_leave_the_domain():
    x = np.array([0.05, 0.5, 0.5])  # log(0.05 − 0.1) is not a number
    assert judged(swept(np.log, x), UPSTREAM[0] / 0.05) == [RIGHT]
    assert judged(swept(lambda x: np.sqrt(-1 - x**2), x), 0.0) == [UNCLEAR]


POINTS = normal(2, 3)


def pair(factor):
    return lambda x, w: (np.tanh(x) * w, (x, w)), lambda dy, c: (
        dy * c[1] / np.cosh(c[0]) ** 2,
        factor * dy * np.tanh(c[0]),
    )


def test_a_right_gradient_is_a_v_and_a_wrong_one_a_level():
    inputs = POINTS, POINTS + 2
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
    report = gradcheck(layer, POINTS, elementwise=elementwise, seed=seed)
    for curve in v_curves(report, layer, (POINTS,), {}, seed=seed):
        assert curve.error[8] < 1e-8, curve.name
    assert [curve.name for curve in v_curves(report, layer, (POINTS,), {}, seed=seed)] == [
        f"Linear · {row.tensor}" for row in report.rows
    ]
    other = v_curves(report, layer, (POINTS,), {}, seed=seed + 1)
    assert max(curve.error[8] for curve in other) > 1e-2
