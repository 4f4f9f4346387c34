"""Rounding of a pair's own operations, beside its errors: what is explained, and what is not."""

import numpy as np
import pytest

from npformer.check.check import gradcheck
from npformer.check.look import CheckOptions, look_at
from npformer.check.report import UNCLEAR, WRONG
from npformer.check.rounding.float64 import LOST, without_lost_digits
from npformer.check.subject import Subject

#: 1 minus a number that is 1 up to 1e-9: nine digits are lost.
X = np.array([1e-9, 2e-9, -3e-9])


def judged(forward, backward, *inputs, elementwise=None):
    """The rows before and after."""
    how = CheckOptions(elementwise=elementwise, allow_length_one=True, why=False, in_regime=True)
    checked = Subject((forward, backward), inputs)
    look = look_at(checked, how)
    return look.report.rows[0], without_lost_digits(look, checked, how).rows[0]


def half_square(x):
    return x * x / 2, x


def difference(dy, x):
    """dy·x, by a detour that keeps seven digits."""
    return dy * ((1 + x) - 1)


@pytest.mark.parametrize("elementwise", [True, False])
def test_lost_digits_and_a_mistake_beside_them(elementwise):
    before, after = judged(half_square, difference, X, elementwise=elementwise)
    assert (before.verdict, after.verdict, after.note) == (WRONG, UNCLEAR, LOST)
    for factor in (1.00001, np.nan):
        wrong = lambda dy, x, f=factor: f * difference(dy, x)  # noqa: E731
        assert judged(half_square, wrong, X, elementwise=elementwise)[1].verdict == WRONG


def test_what_numpy_does_not_compute_is_moved_with_its_inputs():
    def outside(dy, x):
        return np.array([r * ((1 + a) - 1) for r, a in zip(dy.tolist(), x.tolist(), strict=True)])

    assert judged(half_square, outside, X)[1].verdict in (UNCLEAR, WRONG)
    assert judged(half_square, lambda dy, x: 2 * outside(dy, x), X)[1].verdict == WRONG


def test_the_default_check_makes_no_such_excuse():
    assert gradcheck((half_square, difference), X, explain=False).worst.verdict == WRONG
