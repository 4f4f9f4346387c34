"""Entry by entry: small wrong entries beside large right ones are WRONG, and rounding of terms that cancel is not."""

import numpy as np
import pytest

from npformer.proof import gradcheck
from npformer.proof.report import NOTHING, RIGHT, WRONG

WITNESSES = pytest.mark.parametrize("options", [{}, {"complex_step": False}], ids=["complex", "central"])


def verdict(pair, x, **options):
    (row,) = gradcheck(pair, x, **options).rows
    return row.verdict


HIDDEN = "hidden behind larger entries of the tensor; the error is of the entry's own terms"
MATRIX = np.random.default_rng(5).normal(size=(4, 6))


@WITNESSES
@pytest.mark.parametrize(
    ("large", "tolerance"), [(1e11, 1e-10), (1e12, 1e-10), (2e3, 1e-3)], ids=["1e11", "1e12", "2e3 at 1e-3"]
)
def test_small_gradients_claimed_to_be_zero_beside_large_ones(large, tolerance, options):
    w = np.array([2.0, 0.5, -1.0, 3.0, 0.2, 0.7])

    def pair(small):
        return lambda x: (x * np.where(w > 1, large, 1), None), lambda dy, _: dy * np.where(w > 1, large, small)

    for small, expected in ((1, (RIGHT, "")), (0, (WRONG, HIDDEN)), (2, (WRONG, HIDDEN))):
        (row,) = gradcheck(pair(small), MATRIX, tolerance=tolerance, explain=False, **options).rows
        assert (row.verdict, row.note) == expected
        assert row.verdict == RIGHT or w[row.worst_index[1]] < 1


@WITNESSES
@pytest.mark.parametrize("seed", range(4))
def test_a_tiny_bias_beside_large_weights_in_one_tensor(seed, options):
    """1e9 times smaller; by smaller and smaller steps it moves the output by nothing at all."""
    rng = np.random.default_rng(seed)
    a, p = 1e9 * rng.normal(size=(7, 4)), rng.normal(size=5)

    def forward(p):
        return np.tanh(a @ p[:4] * 1e-9) * 1e9 + p[4], p

    def backward(dy, p, factor):
        along = dy * (1 - np.tanh(a @ p[:4] * 1e-9) ** 2)
        return np.concatenate([a.T @ along, [factor * dy.sum()]])

    for factor, expected in ((1, RIGHT), (2, WRONG), (0, WRONG)):
        (row,) = gradcheck(
            (forward, lambda dy, p, c=factor: backward(dy, p, c)), p, explain=seed % 2 > 0, **options
        ).rows
        assert row.verdict == expected
        assert expected == RIGHT or row.worst_index == (4,)


@pytest.mark.parametrize("near", [0.0, 3e-9, 3e-8, 1e-6])
def test_a_small_wrong_entry_shows_beside_a_kink(near):
    """Differences look at the kink first, and must still ask what the rule of the entry says."""
    scales = np.array([1.0, 1.0, 1e-11])

    def forward(x):
        return scales * np.where(x.real > 0, x, 0.5 * x), x

    def backward(dy, x):
        return dy * scales * np.where(x > 0, 1, 0.5) * np.array([1, 1, 2])

    assert verdict((forward, backward), np.array([0.5, near, 0.7]), complex_step=False) not in (RIGHT, NOTHING)


def softmax(x):
    powers = np.exp(x - np.max(x.real, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_slope(dy, y):
    return y * (dy - np.sum(dy * y, axis=-1, keepdims=True))


@WITNESSES
@pytest.mark.parametrize("says_none", [False, True])
def test_a_gradient_that_cancels_to_0_may_be_noise_or_none(says_none, options):
    """A key's bias moves all scores of a query alike."""
    rng = np.random.default_rng(5)
    q, v, k, b = (rng.normal(size=shape) for shape in ((3, 4), (5, 4), (5, 4), 4))

    def forward(k, b):
        y = softmax(q @ (k + b).T)
        return y @ v, y

    def backward(dy, y):
        dk = softmax_slope(dy @ v.T, y).T @ q
        return dk, None if says_none else dk.sum(axis=0)

    report = gradcheck((forward, backward), k, b, **options)
    assert report.ok, report


@WITNESSES
@pytest.mark.parametrize("rounds_to_0", [False, True])
def test_a_saturated_softmax_may_return_0_where_the_truth_is_1e_20(rounds_to_0, options):
    x = np.array([[0.1, -46.2, -1.3, 2.0], [700.4, 0.2, 1.0, -3.1], [40.3, -0.1, 0.5, 0.7]])

    def backward(dy, y):
        dx = softmax_slope(dy, y)
        return np.where(np.abs(dx) < 1e-17, 0, dx) if rounds_to_0 else dx

    (row,) = gradcheck((lambda x: (softmax(x), softmax(x)), backward), x, **options).rows
    assert row.verdict == RIGHT
    assert 0 < row.unjudged < row.elements
    assert f"{row.unjudged} of 12 entries too small beside the largest to be judged" in " ".join(
        " ".join(row.lines()).split()
    )


@WITNESSES
def test_a_variance_far_from_0_may_be_differentiated_by_terms_that_cancel(options):
    """x/n − Σx/n² of 1e6 is 1e-10 off, by the rounding of x alone; what is wrong by more than that is WRONG."""
    n = MATRIX.shape[-1]

    def forward(x):
        centred = x - x.mean(axis=-1, keepdims=True)
        return np.mean(centred * centred, axis=-1), x

    def backward(dy, x):
        return 2 * dy[:, None] * (x / n - np.sum(x / n**2, axis=-1, keepdims=True))

    for offset in (0.0, 1e4, 1e6):
        assert verdict((forward, backward), MATRIX + offset, **options) == RIGHT
        wrong = (forward, lambda dy, x: backward(dy, x) * (1 + 1e-8))
        assert verdict(wrong, MATRIX + offset, explain=False, **options) == WRONG
    assert verdict((forward, lambda dy, x: 2 * dy[:, None] * x / n), MATRIX + 1e6, **options) == WRONG


def test_noise_is_no_excuse_for_itself():
    """A backward whose last seven digits are noise moves by as much as it is off; that does not make it right."""

    def backward(dy, x):
        return dy * (1 - np.tanh(x) ** 2) * (1 + 1e-7 * np.sin(1e17 * x))

    pair = (lambda x: (np.tanh(x), x), backward)
    assert verdict(pair, MATRIX, explain=False) == WRONG
    assert verdict(pair, MATRIX, explain=False, tolerance=1e-6) == RIGHT
