"""A sweep over step sizes tells right from wrong, sees a kink, and says so when it cannot tell."""

import numpy as np
import pytest

from npformer.proof.report import KINK, RIGHT, UNCLEAR, WRONG
from npformer.proof.subject import PairSubject, subject
from npformer.proof.sweep import STEPS, sweep

UPSTREAM = np.array([0.7, -1.3, 0.4])
FIRST = np.array([1.0, 0.0, 0.0])
X = np.array([0.6, -0.8, 1.1])


def swept(forward, x=X, direction=FIRST):
    """The sweep of L = Σ UPSTREAM·forward(x) along a direction."""
    checked = subject((lambda x: (forward(x), None), None), (x,), {}, None)
    assert isinstance(checked, PairSubject)
    return sweep(checked, "x", direction, (UPSTREAM,))


def in_float32(forward):
    return lambda x: forward(x.astype(np.float32)).astype(np.float64)


SMOOTH = {
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "exp": (np.exp, np.exp),
    "x³": (lambda x: x**3, lambda x: 3 * x**2),
    "linear": (lambda x: 1.7 * x, lambda x: 1.7 + 0 * x),
    "sin 9x": (lambda x: np.sin(9 * x), lambda x: 9 * np.cos(9 * x)),
}
each_smooth = pytest.mark.parametrize("name", SMOOTH)


@each_smooth
def test_the_slope_of_a_smooth_function_settles(name):
    forward, derivative = SMOOTH[name]
    found = swept(forward)
    truth = UPSTREAM[0] * derivative(X)[0]
    assert found.slope == pytest.approx(truth, rel=1e-8)
    assert abs(found.slope - truth) <= found.noise < 1e-7 * abs(truth)
    assert abs(found.jump) < 1e-6


def test_the_error_is_a_v():
    found = swept(np.exp)
    error = np.abs(found.central - UPSTREAM[0] * np.exp(X[0]))
    assert np.array_equal(found.h, STEPS)
    assert error[2] / error[4] == pytest.approx(100, rel=0.1)  # h², at h = 1e-2 and 1e-3
    assert error[8] < 1e-9 < error[-4:].max()  # 1e-5 is better than the smallest
    np.testing.assert_array_equal(found.central, (found.right + found.left) / 2)


@each_smooth
@pytest.mark.parametrize(("factor", "verdict"), [(1, RIGHT), (1.001, WRONG), (1.00001, WRONG), (2, WRONG), (-1, WRONG)])
def test_right_and_wrong_slopes(name, factor, verdict):
    forward, derivative = SMOOTH[name]
    truth = float(UPSTREAM[0] * derivative(X)[0])
    assert swept(forward).verdict(factor * truth, abs(truth), 1e-7) == verdict


def test_a_claim_that_is_not_a_number_is_wrong():
    found = swept(np.tanh)
    assert [found.verdict(claim, 1.0, 1e-7) for claim in (np.nan, np.inf)] == [WRONG, WRONG]


def test_no_slope_at_all():
    flat = swept(lambda x: 0 * x)
    assert (flat.slope, flat.noise, flat.jump) == (0, 0, 0)
    assert (flat.verdict(0.0, 1.0, 1e-7), flat.verdict(0.01, 1.0, 1e-7)) == (RIGHT, WRONG)
    top = swept(np.cos, np.array([0.0, 1.0, 2.0]))
    assert (top.verdict(0.0, 1.0, 1e-7), top.verdict(1e-5, 1.0, 1e-7)) == (RIGHT, WRONG)


def relu(x):
    return np.where(x > 0, x, 0) + 0.2 * x**2


@pytest.mark.parametrize("claim", [0.0, 0.5, 1.0])
def test_a_kink_at_the_very_point(claim):
    found = swept(relu, np.array([0.0, -0.8, 1.1]))
    assert found.jump == pytest.approx(UPSTREAM[0])
    assert found.verdict(claim * UPSTREAM[0], 1.0, 1e-7) == KINK


@pytest.mark.parametrize("distance", [1e-6, -1e-6, 1e-5, 1e-3, 0.05])
def test_beside_a_kink_there_is_a_slope(distance):
    found = swept(relu, np.array([distance, -0.8, 1.1]))
    truth = UPSTREAM[0] * ((distance > 0) + 0.4 * distance)
    assert found.verdict(truth, 1.0, 1e-7) == RIGHT
    assert found.verdict(truth + 0.5, 1.0, 1e-7) == WRONG


def test_float32_inside_cannot_tell_and_never_accuses():
    """Three coarse differences agree by luck now and then; that must not make a right slope WRONG."""
    rng, verdicts = np.random.default_rng(0), []
    for forward, derivative in SMOOTH.values():
        for _ in range(40):
            x = rng.normal(size=3)
            truth = float(UPSTREAM[0] * derivative(x)[0])
            verdicts.append(swept(in_float32(forward), x).verdict(truth, abs(truth), 1e-7))
    assert set(verdicts) == {UNCLEAR}


def test_float32_inside_still_shows_what_is_badly_wrong_and_where_a_kink_is():
    found = swept(in_float32(lambda x: 1.7 * x))
    assert found.verdict(2 * 1.7 * UPSTREAM[0], 1.0, 1e-7) == WRONG
    at_the_kink = swept(in_float32(relu), np.array([0.0, -0.8, 1.1]))
    assert at_the_kink.verdict(0.0, 1.0, 1e-7) == KINK


def test_noise_alone_cannot_tell():
    rng = np.random.default_rng(0)
    found = swept(lambda x: x + 1e-3 * rng.normal(size=x.shape))
    assert found.verdict(UPSTREAM[0], 1.0, 1e-7) == UNCLEAR


def test_large_steps_may_leave_the_domain():
    x = np.array([0.05, 0.5, 0.5])  # log(0.05 − 0.1) is not a number
    assert swept(np.log, x).verdict(UPSTREAM[0] / 0.05, 1.0, 1e-7) == RIGHT
    nowhere = swept(lambda x: np.sqrt(-1 - x**2), x)
    assert nowhere.verdict(0.0, 1.0, 1e-7) == UNCLEAR
