"""What stays at points nearby: places, coefficients, verdicts of an entry, and the points themselves."""

import numpy as np
import pytest

from npformer.check.rounding.low_precision import LIMIT, ONCE, POINTS, WORST, Coefficients, Places, errors_of, moved
from tests.check.functions import normal

U = 2.0**-8
N, TERM = normal(3, 4), normal(4, 3).T
PLACES = Places(np.arange(12), (3, 4), ((0,), (1,), (0, 1)), np.zeros((0, 12)))
NONE = Coefficients((), np.zeros((0, 1)), np.zeros(0))


def judged(e, floor=0.0, stored=0.0, once=0.0, spacing=0.0):
    """Errors at one place, of e (K,), with draws of these sizes."""
    draws = [np.full((8, 1), size) for size in (floor, stored, stored)]
    one = np.ones(1)
    return errors_of(np.reshape(e, (-1, 1)), draws, spacing * one, once * one, NONE)


def test_places_are_entries_then_sums_then_directions():
    np.testing.assert_allclose(PLACES.of(N), [*N.ravel(), *N.sum(axis=0), *N.sum(axis=1), N.sum()])
    np.testing.assert_allclose(PLACES.sums_of_squares(N)[12:16], np.square(N).sum(axis=0))
    np.testing.assert_allclose(PLACES.sizes(N)[:12], np.abs(N).ravel())
    np.testing.assert_allclose(PLACES.sizes(N - N.mean())[19], np.linalg.norm(N - N.mean()))  # it cancels to 0
    assert PLACES.label(12 + 1) == "the sum over axis 0 at 1"
    assert PLACES.label(16 + 2) == "the sum over axis 1 at 2"
    assert PLACES.label(19) == "the sum over all axes"
    some = Places(np.array([2, 5]), (3, 4), (), normal(2, 12))
    np.testing.assert_allclose(some.of(N), [N[0, 2], N[1, 1], *(some.directions @ N.ravel())])
    np.testing.assert_allclose(some.sums_of_squares(N)[2:], np.square(some.directions) @ np.square(N).ravel())
    assert [index for index, _ in some.along()] == [(0, 2), (1, 1), (0,), (1,)]
    assert some.label(3) == "a random direction (2)"


HALF = np.full(POINTS, 0.5)
SCATTERED = 0.1 * np.sin(np.arange(POINTS))


@pytest.mark.parametrize(
    ("e", "sizes", "stays", "is_wrong"),
    [
        (SCATTERED, {}, False, False),
        (SCATTERED + 0.5, {}, True, True),
        (HALF, {"floor": 0.5 / LIMIT * 1.01}, False, False),
        (HALF, {"floor": 0.5 / LIMIT * 0.99}, True, True),
        (HALF, {"once": 0.51}, False, False),
        (HALF, {"stored": 0.5 / WORST * 1.01}, True, False),
        (HALF, {"stored": 0.5 / WORST * 0.99}, True, True),
        (HALF, {"spacing": 0.5 / LIMIT * 12**0.5 * 1.01}, False, False),
        (np.zeros(POINTS), {}, False, False),
        (np.full(POINTS, 1e-30), {}, True, True),
    ],
    ids=["rounding", "mistake", "within the floor", "beyond it", "a constant", "stored", "more than stored", "spacing",
         "exact", "not exact"],
)  # fmt: skip
def test_both_sides_of_each_limit(e, sizes, stays, is_wrong):
    errors = judged(e, **sizes)
    assert (bool(errors.stays[0]), bool(errors.is_wrong[0])) == (stays, is_wrong)


def test_errors_that_scatter_are_compared_with_what_every_stored_result_explains():
    errors = judged(SCATTERED, stored=0.02)
    assert errors.spread == pytest.approx(np.std(SCATTERED, ddof=1))
    assert errors.excess == pytest.approx(errors.spread / 0.02)


def test_the_rounding_of_results_adds_up_in_a_coefficient():
    """By squares: a weight of −1 takes nothing away."""
    two, none = np.ones(2), np.zeros((8, 2))
    difference = Coefficients(("",), np.array([[1.0, -1.0]]), np.zeros(1))
    errors = errors_of(np.zeros((POINTS, 2)), [none] * 3, 0.5 * two, 0 * two, difference)
    np.testing.assert_allclose(errors.floor, 0.5 * np.sqrt([1 / 12, 1 / 12, 2 / 12]))


def test_too_few_points_tell_nothing():
    errors = judged(np.full(2, 0.5))
    assert not errors.stays[0]
    assert errors.doubt[0] == np.inf


def test_a_coefficient_tells_a_factor_and_a_missing_term():
    n, term = PLACES.of(N), PLACES.of(TERM)
    coefficients = Coefficients.of(n, {"a": term, "twice n": 2 * n}, 12, U)
    assert coefficients.texts == ("", "a")  # a multiple of n is the factor
    factor, of_term = coefficients.weights @ (0.02 * n)
    assert factor == pytest.approx(0.02)
    assert of_term == pytest.approx(0, abs=1e-12)
    assert (coefficients.weights @ (-term))[1] == pytest.approx(-1)
    assert coefficients.once[0] == ONCE * U
    assert coefficients.once[1] > ONCE * U


@pytest.mark.parametrize("u", [2.0**-24, 2.0**-11, 2.0**-8])
def test_a_point_nearby_keeps_zeros_and_signs_and_rounds_statistics_anew(u):
    x = normal(6, 50) + 30
    x[2, 3] = 0
    there = moved(x, np.random.default_rng(0), u)
    assert there[2, 3] == 0
    assert np.all(np.sign(there) == np.sign(x))
    assert np.all(np.abs(there - x) <= max(4 * u, 0.04) * np.abs(x))
    assert np.all(np.abs((there - x).mean(axis=1)) > 0.05 * u * 30)  # a row's mean moves by some roundings
    assert np.all(moved(np.zeros(3), np.random.default_rng(0), u) == 0)


def test_large_numbers_move_by_less_than_one_third():
    """A softmax of them does not become another one."""
    x = 300 * normal(6, 50)
    assert 0.05 < np.max(np.abs(moved(x, np.random.default_rng(0), 2.0**-24) - x)) <= 0.3
