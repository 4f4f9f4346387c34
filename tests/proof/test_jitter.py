"""A hair's breadth away: what rounding may do to a witness and to a claim."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.proof.jitter import DRAWS, MOVE, Jitter
from npformer.proof.oracles import Oracle, unit
from npformer.proof.subject import subject

X = np.array([0.3, -1.2, 2.0])
UPSTREAMS = [(np.array([2.0, -1.0, 0.5]),), (np.array([-0.4, 1.0, 2.5]),)]


def jitter_of(pair, x=X, upstreams=UPSTREAMS, **options):
    oracle = Oracle(subject(pair, [x], {}, get_backend("numpy").device), upstreams, **options)
    return oracle, Jitter(oracle, 0)


def sine():
    return lambda x: (np.sin(x), x), lambda dy, x: dy * np.cos(x)


def moves(pair, i, x=X, **options):
    oracle, jitter = jitter_of(pair, x, **options)
    direction = unit(x.shape, (i,))
    slope = oracle.complex_step("x", direction)
    claimed = np.array([oracle.subject.gradients(each)["x"][i] for each in oracle.upstreams])
    return jitter.moves("x", (i,), direction, slope, claimed)


def test_of_a_smooth_function_both_move_by_the_rounding_of_their_inputs():
    found = moves(sine(), 2)
    for moved in (found.witness, found.claim):
        assert moved.shape == (2,)
        assert np.all(moved > 0)
        size = np.abs([each[0][2] for each in UPSTREAMS]) * (abs(np.cos(2)) + 2 * abs(np.sin(2)))
        assert np.all(moved <= 2 * MOVE * size)


def test_points_move_by_at_most_two_units_in_the_last_place_and_the_same_way_each_time():
    seen = []

    def backward(dy, x):
        seen.append(np.concatenate([x / X, dy / UPSTREAMS[len(seen) % 2][0]]))
        return dy * np.cos(x)

    for _ in range(2):
        _, jitter = jitter_of((sine()[0], backward))
        jitter.of_claims("x", np.cos(X))
    seen_first, seen_again = np.array(seen[: 2 * DRAWS]), np.array(seen[2 * DRAWS :])
    np.testing.assert_array_equal(seen_first, seen_again)
    assert np.max(np.abs(seen_first - 1)) <= MOVE * (1 + 2.0**-10)
    assert len({tuple(each) for each in seen_first}) == 2 * DRAWS


def test_far_from_0_what_cancels_moves_by_far_more():
    def forward(x):
        return (x - x.mean()) ** 2, x

    def backward(dy, x):
        g = 2 * dy * (x - x.mean())
        return g - g.mean()

    near, far = moves((forward, backward), 0), moves((forward, backward), 0, X + 1e6)
    assert np.all(near.witness < 1e-14)
    assert np.all((far.witness > 1e-11) & (far.witness < 1e-8))
    assert np.all((far.claim > 1e-11) & (far.claim < 1e-8))


def test_without_the_complex_step_the_claim_alone_is_asked():
    found = moves(sine(), 2, use_complex=False)
    np.testing.assert_array_equal(found.witness, 0)
    assert np.all(found.claim > 0)


def test_of_claims_is_of_every_entry_and_the_first_upstream_gradient():
    _, jitter = jitter_of((sine()[0], lambda dy, x: np.array([0.0, dy[1] * np.cos(x[1]), 5.0])))
    claimed = np.array([0.0, UPSTREAMS[0][0][1] * np.cos(X[1]), 7.0])
    found = jitter.of_claims("x", claimed)
    assert found[0] == 0
    assert 0 < found[1] < 1e-15
    assert found[2] == 2


@pytest.mark.parametrize("use_complex", [True, False])
def test_fresh_upstream_gradients_are_new_ones(use_complex):
    """An error of x₀ that the first two upstream gradients do not show."""
    known = [each[0] for each in UPSTREAMS]

    def backward(dy, x):
        is_known = any(np.allclose(dy, r) for r in known)
        return dy * np.cos(x) * (1 if is_known else 1.5)

    _, jitter = jitter_of((sine()[0], backward), use_complex=use_complex)
    error, reach, worth = jitter.fresh("x", (0,), unit(X.shape, (0,)), 3)
    np.testing.assert_allclose(error, 0.5 * reach, rtol=1e-6)
    assert len(set(error)) == 3
    assert np.all(worth <= 1e-9 * reach)
