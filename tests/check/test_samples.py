"""Other points of the same check: what is wrong only there is found, and the row says where."""

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.check import SAMPLES, SIZES
from npformer.check.report import RIGHT, WRONG
from tests.check.functions import SINE, normal, only_row

X = normal(2, 5)


def blocks_of_32(x):
    return np.sum(x**2, axis=-1), x


def without_the_tail(dy, x):
    """The last entries of a row, one of 33 say, are forgotten where whole blocks came before them."""
    dx = 2 * x * dy[:, None]
    n = x.shape[-1]
    if n > 32 and n % 32 == 1:
        dx[:, -1] = 0
    return dx


SQUARES = (blocks_of_32, lambda dy, x: 2 * x * dy[:, None])


def rows(n):
    return (normal(2, n, seed=n),)


def test_sizes_find_what_only_a_size_shows():
    assert gradcheck((blocks_of_32, without_the_tail), X).ok
    row = only_row((blocks_of_32, without_the_tail), X, sizes=rows)
    assert row.verdict == WRONG
    assert row.note in ("at size 33", "at size 129")
    assert row.shape == ((2, 33) if row.note == "at size 33" else (2, 129))
    assert row.worst_index[1] == row.shape[1] - 1
    assert gradcheck(SQUARES, X, sizes=rows).ok


def test_each_size_is_tried_once():
    asked = []

    def noted(n):
        asked.append(n)
        return rows(n)

    assert gradcheck(SQUARES, X, sizes=noted, elementwise=False).ok
    assert tuple(asked) == SIZES
    assert 33 in SIZES


def leaky(x):
    return np.where(x.real > 0, x, np.where(x.real > -1, 0.1 * x, 0.5 * x - 0.5)), x


def two_pieces(dy, x):
    """Knows nothing of the third piece, below −1."""
    return dy * np.where(x > 0, 1, 0.1)


LEAKY = (leaky, two_pieces)


def test_samples_find_what_only_another_point_shows():
    x = np.array([0.5, -0.3, 0.8, -0.6])
    assert gradcheck(LEAKY, x).ok
    row = only_row(LEAKY, x, sample=lambda rng: [rng.uniform(-3, 3, size=4)])
    assert row.verdict == WRONG
    assert row.note in {f"at sample {i + 1}" for i in range(SAMPLES)}
    assert (row.analytic / row.numeric) == pytest.approx(0.2)
    assert gradcheck(LEAKY, x, sample=lambda rng: [rng.uniform(-0.9, 3, size=4)]).ok


def test_samples_are_those_of_the_seed():
    drawn = []

    def sample(rng):
        drawn.append(rng.uniform(0.1, 3, size=4))
        return drawn[-1:]

    for seed in (0, 0, 1):
        gradcheck(LEAKY, X[0], sample=sample, seed=seed)
    first, again, other = np.split(np.array(drawn), 3)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(np.concatenate([first, other]))) == 2 * SAMPLES * 4


def test_of_points_that_are_all_right_the_largest_error_is_shown():
    pair = SINE[0], lambda dy, x: SINE[1](dy, x) * (1 + 1e-12 * (np.max(x) > 1))
    row = only_row(pair, np.array([0.1, 0.2]), sample=lambda rng: [rng.uniform(1, 2, size=2)])
    assert row.verdict == RIGHT
    assert row.note.startswith("at sample ")
    assert row.scaled_error == pytest.approx(1e-12, rel=1e-2)


def test_problems_and_notes_of_other_points_are_said_with_the_point_and_once():
    def backward(dy, x):
        dx = dy * 2 * x
        if len(x) > 128:
            dy *= 0
        return dx

    pair = (lambda x, k: (x**2, x), backward)
    report = gradcheck(pair, np.array([0.1, 0.2]), 3.0, sizes=lambda n: (normal(n, seed=n), 3.0))
    text = "backward changes dy, the upstream gradient, which other code still needs; work on a copy"
    assert report.problems == (f"{text} (at size 129)",)
    assert not report.ok
    assert report.notes == ("passed on unchecked: k (float 3.0)",)
