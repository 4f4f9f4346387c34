"""Differences of a kernel's own forward: both sides of the limit, and when they tell too little.

The forward computes in float64, so that its differences are exact, and is judged as one of bfloat16.
"""

import numpy as np
import pytest

from npformer.check.report import RIGHT, UNCLEAR, WRONG
from npformer.check.rounding.formats import FORMATS
from npformer.check.rounding.low_precision import LAMBDA, by_own_forward
from tests.check.functions import forward_alone

BFLOAT16 = FORMATS["bfloat16"]
U = BFLOAT16.u
X = np.array([0.8, -0.5, 0.2])


def row(forward, truth, upstream, off=0.0, x=X):
    """The row of a claim that is off by so much."""
    (row,) = by_own_forward(forward_alone(lambda x: forward(x), x), (upstream,), {"x": truth + off}, BFLOAT16)
    return row


@pytest.mark.parametrize(("share", "expected"), [(0.98, RIGHT), (1.02, WRONG), (-1.02, WRONG), (np.nan, WRONG)])
@pytest.mark.parametrize("place", [0, 1])
def test_both_sides_of_the_limit(place, share, expected):
    """4u·(√N·A + max(max|n|, Σ|r·y|/√N / rms x)): 12 outputs, and an entry whose terms do not cancel."""
    w, r = np.array([[2.0, 0.5, 0.1]] * 4) * np.array([[1], [2], [1], [3]]), np.ones((4, 3))
    r[1] = -0.5
    n, reach = np.sum(r * w, axis=0), np.sum(np.abs(r * w), axis=0)
    terms = np.sum(np.abs(r * w * X)) / 12**0.5 / np.sqrt(np.mean(X**2))
    limit = LAMBDA * U * (12**0.5 * reach + max(n.max(), terms))
    judged_row = row(lambda x: w * x, n, r, share * limit * (np.arange(3) == place))
    assert judged_row.verdict == expected
    assert judged_row.worst_index == ((place,) if np.isfinite(share) else (0,))


def test_a_forward_with_noise_may_be_off_by_eight_times_its_error():
    """bfloat16 numbers come as float32, so the steps are those that bfloat16 shows."""

    def rounded(x):
        spacing = BFLOAT16.spacing(x)
        return np.rint(x / spacing) * spacing

    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=6)
        judged_row = row(lambda x: rounded(np.tanh(4 * x)), 4 / np.cosh(4 * x) ** 2, np.ones(6), x=x)
        assert judged_row.verdict in (RIGHT, UNCLEAR), judged_row


#: x₁ cancels in these outputs: its reach is 2K times its slope.
def cancelling(first, k):
    return lambda x: np.stack([first * x[0], k * x[1], (1 - k) * x[1]])


@pytest.mark.parametrize(
    ("first", "k", "off", "expected"),
    [
        (3.0, 1.0, 0.0, RIGHT),  # each limit is narrow
        (3.0, 40.0, 0.0, RIGHT),  # half of the squares are told
        (0.5, 40.0, 0.0, UNCLEAR),  # most is in the entry that is not
        (0.5, 40.0, 9.0, WRONG),
    ],
)
def test_right_needs_half_of_the_gradient_to_be_told(first, k, off, expected):
    x = np.array([0.7, 1e-3])
    judged_row = row(cancelling(first, k), np.array([first, 1.0]), np.ones(3), off * np.array([0, 1]), x)
    assert judged_row.verdict == expected
    assert judged_row.note.endswith("give reference=, a float64 pair or forward") == (expected == UNCLEAR)


def test_small_entries_are_told_by_the_scale_of_the_largest():
    """Each limit is wider than its entry, and narrower than a fifth of what counts beside 1: 1e-3."""
    small, x = np.full(8, 1e-6), 100 * np.arange(8.0)
    checked = forward_alone(lambda a, x: np.concatenate([a, small * x]), X[:2], x)
    rows = by_own_forward(checked, (np.ones(10),), {"a": np.ones(2), "x": small}, BFLOAT16)
    assert [row.verdict for row in rows] == [RIGHT, RIGHT]
    assert rows[1].scale == pytest.approx(1e-3)
