"""Stochastic arithmetic: what is rounded moves by its rounding, what is exact does not move."""

import numpy as np
import pytest

from npformer.check.rounding.stochastic import APPROXIMATED, Level, Phased, Rounding
from tests.check.functions import normal

U = 2.0**-8
X, W = normal(4, 6), normal(6, 3)
OF_CONSTANTS = Level(0.0, 0.0, constant=U)
SPREAD = 3**-0.5  # of a number that is uniform in [−1, 1]


def moves(run, *arrays, level=Level(U, U), draws=400):  # noqa: B008 - a tuple
    """The changes of run's results, in roundings: (draws, …)."""
    exact = np.asarray(run(*arrays))
    moved = []
    for seed in range(draws):
        rounding = Rounding(seed, level, level)
        with rounding.during(True):
            moved.append(np.asarray(run(*map(rounding.of, arrays))) - exact)
    return np.array(moved) / U


@pytest.mark.parametrize(
    "run",
    [
        np.negative, np.sign, lambda x: np.maximum(x, 0.3), lambda x: np.sort(x, axis=0), lambda x: x.max(axis=-1),
        lambda x: np.where(x > 0, x, 0), lambda x: 2 * x, lambda x: x / 4, lambda x: x * (x > 0),
        lambda x: x.T[1:].reshape(-1), lambda x: np.concatenate([x, x]),
        lambda x: np.take_along_axis(x, np.argsort(x), axis=-1),
    ],
)  # fmt: skip
def test_what_is_exact_does_not_move(run):
    assert np.all(moves(run, X, draws=3) == 0)


def of_product(x):
    return np.sqrt(np.square(x) @ np.square(W) + 2 * np.square(x @ W))


@pytest.mark.parametrize(
    ("run", "roundings"),
    [
        (lambda x: x + 1.5, lambda x: np.abs(x + 1.5)),
        (lambda x: x * x, np.square),
        (lambda x: x / 3, lambda x: np.abs(x / 3)),
        (np.exp, lambda x: APPROXIMATED * np.exp(x)),
        (np.tanh, lambda x: APPROXIMATED * np.abs(np.tanh(x))),
        (lambda x: x.sum(axis=-1), lambda x: of_sum(x)),
        (lambda x: x @ W, of_product),
        (lambda x: np.einsum("ij,jk->ik", x, W), of_product),
        (lambda x: np.dot(x, W), of_product),
    ],
    ids=["sum of two", "product", "quotient", "exp", "tanh", "sum", "matmul", "einsum", "dot"],
)
def test_a_result_moves_by_its_rounding(run, roundings):
    np.testing.assert_allclose(spread(moves(run, X)), SPREAD * roundings(X), rtol=0.2)


def spread(changes):
    return np.sqrt(np.mean(np.square(changes), axis=0))


def of_sum(x):
    return np.sqrt(np.square(x).sum(axis=-1) + 2 * x.sum(axis=-1) ** 2)


def test_a_complex_step_passes_and_its_parts_move_apart():
    x = X + 1e-30j * normal(4, 6, seed=1)
    for run, roundings in ((lambda x: x @ W, of_product), (lambda x: x.sum(axis=-1), of_sum)):
        np.testing.assert_allclose(spread(moves(run, x).imag), SPREAD * roundings(x.imag), rtol=0.2)
    changes, y = moves(np.exp, x), np.exp(x)
    for part in ("real", "imag"):
        expected = SPREAD * APPROXIMATED * np.abs(getattr(y, part))
        np.testing.assert_allclose(spread(getattr(changes, part)), expected, rtol=0.2)


def test_the_same_seed_gives_the_same_run_and_a_forward_begins_anew():
    rounding = Rounding(3, Level(U, U), Level(U, U))

    def run():
        with rounding.during(True):
            return np.asarray(np.exp(rounding.of(X)))

    first = run()
    np.testing.assert_array_equal(first, run())
    assert np.any(first != np.exp(X))
    assert np.all(np.asarray(np.exp(rounding.of(X))) == np.exp(X))  # outside of a forward nothing is rounded


@pytest.mark.parametrize(("number", "is_exact"), [(0.5, True), (3, True), (0.1, False), (257.0, False), (256.0, True)])
def test_a_constant_moves_only_if_the_precision_cannot_represent_it(number, is_exact):
    for run in (lambda x: x * number, lambda x: x * np.full(6, float(number))):
        assert np.all((moves(run, X, level=OF_CONSTANTS, draws=3) == 0) == is_exact)


def test_indices_stay_integers():
    level = Level(U, U, constant=U)
    rounding = Rounding(0, level, level)
    with rounding.during(True):
        i = np.floor(np.abs(rounding.of(X))).astype(np.int64)
        assert (i + 1).dtype == (3 * i).dtype == np.int64
        assert np.all(X[i % 3 + 1, 0] == X[np.floor(np.abs(X)).astype(np.int64) % 3 + 1, 0])


def test_one_factor_moves_a_whole_result():
    changes = moves(lambda x: x * x, X, level=Level(0.0, 0.0, together=U), draws=5) / np.square(X)
    assert np.all(np.ptp(changes, axis=(1, 2)) < 1e-9)
    assert np.all(changes != 0)


def test_sums_in_few_digits_lose_what_their_partial_sums_lose():
    """Ones are added up to 256 in bfloat16 and no further; the terms alone would lose 16 roundings."""
    level = Level(2.0**-24, 2.0**-24, partial=U)
    ones = np.ones((1, 1024))
    lost, few = (spread(moves(lambda x: x.sum(axis=-1), each, level=level)) for each in (ones, ones[:, :16]))
    assert lost * U > 0.4 * (1024 - 256)
    assert few * U < 16 * 16 * U


def test_forward_and_backward_have_levels_of_their_own():
    pair = Phased((lambda x: (x * x, x), lambda dy, x: dy * x))
    for forward, backward in ((U, 0.0), (0.0, U)):
        pair.rounding = Rounding(0, Level(forward, forward), Level(backward, backward))
        y, cache = pair.forward(pair.rounding.of(X))
        dx = pair.backward(pair.rounding.of(X), cache)
        assert np.any(np.asarray(y) != X * X) == bool(forward)
        assert np.any(np.asarray(dx) != X * X) == bool(backward)
        assert pair.is_carried


def outside(x):
    """As a kernel sees it that is called from NumPy."""
    return np.array(np.asarray(x))


def written(x):
    y = np.zeros(x.shape)
    for i in range(len(x)):
        y[i] = np.sin(x[i])
    return y


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        (np.square, lambda dy: dy, True),
        (lambda x: x, np.square, True),
        (written, written, True),
        (outside, np.square, False),
        (np.square, outside, False),
    ],
    ids=["dy itself", "x itself", "written one by one", "forward", "backward"],
)
def test_what_is_computed_outside_of_numpy_is_told_though_the_cache_holds_the_input(forward, backward, expected):
    pair = Phased((lambda x: (forward(x), x), lambda dy, _: backward(dy)))
    pair.rounding = Rounding(0, Level(U, U), Level(U, U))
    _, cache = pair.forward(pair.rounding.of(X))
    pair.backward(pair.rounding.of(X), cache)
    assert pair.is_carried == expected


@pytest.mark.parametrize("run", [lambda x: np.linalg.inv(x[:, :4]), lambda x: np.fft.fft(x)[:, 1:].real])
def test_linear_algebra_and_transforms_move(run):
    assert np.all(moves(run, X, draws=2) != 0)


@pytest.mark.parametrize(("axis", "keepdims"), [(1, True), (-1, False), (None, False), ((0, 1), True)])
def test_a_sum_in_few_digits_keeps_its_shape(axis, keepdims):
    run = lambda x: x.sum(axis=axis, keepdims=keepdims)  # noqa: E731
    assert moves(run, X, level=Level(0.0, 0.0, partial=U), draws=2).shape == (2, *run(X).shape)
