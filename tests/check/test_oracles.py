"""The witnesses against derivatives known from school, and what rounding may do to a witness and to a claim."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.check import gradcheck
from npformer.check.oracles import Oracle, unit
from npformer.check.rounding.float64 import DRAWS, MOVE, Jitter
from npformer.check.subject import Subject
from tests.check.functions import GELU, SINE, forward_alone, normal

X = np.array([[0.3, -1.2], [2.0, 0.7]])
UPSTREAMS = [(np.array([[2.0, -1.0], [0.5, 3.0]]),), (np.array([[-0.4, 1.0], [2.5, 0.1]]),)]
SLOPES = np.array([r * (np.exp(X) * np.sin(X) + np.exp(X) * np.cos(X)) for (r,) in UPSTREAMS])


def of(forward, x, upstreams=UPSTREAMS, use_complex=True):
    def no_backward(*_):
        raise AssertionError("a witness must not ask the accused")

    checked = Subject((lambda x: (forward(x), None), no_backward), [x], {}, get_backend("numpy").device)
    return Oracle(checked, upstreams, use_complex)


def by_differences(forward, x):
    """The slopes of Σ y, without the complex step."""
    return of(forward, x, [(np.ones(x.shape),)], use_complex=False).evidence("x")


def curve(x):
    return np.exp(x) * np.sin(x)


def test_the_complex_step_is_exact_and_central_differences_confirm_it():
    numeric = of(curve, X).evidence("x")
    np.testing.assert_allclose(numeric.truth, SLOPES, rtol=1e-15)
    np.testing.assert_allclose(numeric.by_central, SLOPES, rtol=1e-8)
    np.testing.assert_allclose(numeric.reach, np.abs(SLOPES), rtol=1e-12)  # one output each: nothing cancels
    assert np.all(np.abs(numeric.by_central - SLOPES) <= numeric.central_error * (1 + 1e-6) + 1e-15)


def test_extrapolated_differences_are_better_than_1e_11_and_know_it():
    numeric = of(curve, X, use_complex=False).evidence("x")
    assert numeric.by_complex is None
    assert numeric.truth is numeric.by_central
    np.testing.assert_allclose(numeric.truth, SLOPES, rtol=1e-11)
    assert np.all(np.abs(numeric.truth - SLOPES) <= 8 * numeric.central_error)
    assert np.all(numeric.central_error <= 1e-10 * np.abs(SLOPES))


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_steps_are_of_the_size_of_x(size):
    """log and its like have a scale of their own; a step that is no part of it would leave the domain."""
    x = size * np.array([0.5, 1.5, 3.0])
    numeric = by_differences(np.log, x)
    np.testing.assert_allclose(numeric.truth[0], 1 / x, rtol=1e-10)


def test_reach_is_what_would_be_there_if_nothing_cancelled():
    oracle = of(lambda x: np.stack([3 * x[0], -3 * x[0] + x[1]]), np.array([0.3, 0.7]), [(np.ones(2),)])
    numeric = oracle.evidence("x")
    np.testing.assert_allclose(numeric.truth[0], [0, 1], atol=1e-15)
    np.testing.assert_allclose(numeric.reach[0], [6, 1])


@pytest.mark.parametrize("rounding", [2.0**-24, 2.0**-11, 2.0**-8], ids=["float32", "float16", "bfloat16"])
def test_noise_is_told(rounding):
    """The estimate is never far below the error, whatever agrees by luck.

    Steps must be such as those bits show: smaller ones move nothing, and look smooth.
    """

    def rounded(x):
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.round(mantissa / (2 * rounding)) * (2 * rounding), exponent)

    def forward(x):
        return rounded(np.tanh(rounded(x)))

    for seed in range(10):
        x = normal(4, seed=seed)
        oracle = of(forward, x, [(np.ones(4),)], use_complex=False)
        oracle.rounding = rounding
        numeric = oracle.evidence("x")
        assert np.all(np.abs(numeric.truth[0] - (1 - np.tanh(x) ** 2)) <= 8 * numeric.central_error[0])


def test_beside_a_kink_a_smaller_step_is_found_and_at_a_kink_none():
    def bent(x):
        return np.where(x.real > 0, x, 0)

    numeric = of(bent, np.array([2e-6, 1.0, 1e-12]), [(np.ones(3),)]).evidence("x")
    np.testing.assert_allclose(numeric.truth[0], 1)
    np.testing.assert_allclose(numeric.by_central[0, :2], 1, rtol=1e-9)
    assert numeric.by_central[0, 2] == pytest.approx(0.5)  # what every step size says at a kink


def test_the_slope_at_another_point_is_that_of_all_tensors_there():
    oracle = Oracle(forward_alone(lambda x, w: x * w, POINT, POINT), OF_POINT)
    at = {"x": POINT, "w": POINT + 1}
    expected = [each[0][0] * at["w"][0] for each in OF_POINT]
    for witness in (oracle.extrapolated, oracle.complex_step):
        np.testing.assert_allclose(witness("x", unit((3,), (0,)), at).value, expected, rtol=1e-10)


POINT = np.array([0.3, -1.2, 2.0])
OF_POINT = [(np.array([2.0, -1.0, 0.5]),), (np.array([-0.4, 1.0, 2.5]),)]


def jitter_of(pair, x=POINT, **options):
    oracle = Oracle(Subject(pair, [x], {}, get_backend("numpy").device), OF_POINT, **options)
    return oracle, Jitter(oracle, 0)


def test_points_move_by_at_most_two_units_in_the_last_place_and_the_same_way_each_time():
    seen = []

    def backward(dy, x):
        seen.append(np.concatenate([x / POINT, dy / OF_POINT[len(seen) % 2][0]]))
        return dy * np.cos(x)

    for _ in range(2):
        _, jitter = jitter_of((SINE[0], backward))
        jitter.of_claims("x", np.cos(POINT))
    seen_first, seen_again = np.array(seen[: 2 * DRAWS]), np.array(seen[2 * DRAWS :])
    np.testing.assert_array_equal(seen_first, seen_again)
    assert 0 < np.max(np.abs(seen_first - 1)) <= MOVE * (1 + 2.0**-10)
    assert len({tuple(each) for each in seen_first}) == 2 * DRAWS


@pytest.mark.parametrize("use_complex", [True, False])
def test_fresh_upstream_gradients_are_new_ones(use_complex):
    """An error of x₀ that the first two upstream gradients do not show."""
    known = [each[0] for each in OF_POINT]

    def backward(dy, x):
        is_known = any(np.allclose(dy, r) for r in known)
        return dy * np.cos(x) * (1 if is_known else 1.5)

    _, jitter = jitter_of((SINE[0], backward), use_complex=use_complex)
    error, reach, worth = jitter.fresh("x", unit(POINT.shape, (0,)), 3)
    np.testing.assert_allclose(error, 0.5 * reach, rtol=1e-6)
    assert len(set(error)) == 3
    assert np.all(worth <= 1e-9 * reach)


def test_a_forward_that_rounds_inside_is_not_mistaken_for_a_smooth_one():
    """1 + tanh(x) stays where it is for small steps, and grows by whole roundings for larger ones."""
    for scale, seed in ((3, 3), (6, 1)):
        x = (scale * np.random.default_rng(seed).normal(size=(4, 8))).astype(np.float32).astype(np.float64)
        assert gradcheck(GELU, x, complex_step=False, seed=seed).ok
