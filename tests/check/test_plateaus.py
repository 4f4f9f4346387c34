"""Forwards that answer in steps: what rounds inside, waves and sawtooths, iterations that stop, underflow and ties."""

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.plateaus import plateaus
from npformer.check.report import KINK, NOTHING, RIGHT, WRONG
from tests.check.functions import forward_alone, normal, only_row, softmax_slope, verdict

X = normal(4, 6)
FIRST = np.eye(1, 24).reshape(4, 6)


def scaled(backward, factor):
    return lambda dy, cache: factor * backward(dy, cache)


def short(x):
    return np.asarray(x).astype(np.float32)


def short_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / short(e.sum(-1, keepdims=True))
    return p, p


IN_STEPS = {
    "softmax with a float32 sum": ((short_softmax, softmax_slope), X),
    "centred by a float32 mean": (
        (lambda x: (x - short(x.mean(-1, keepdims=True)), None), lambda dy, _: dy - dy.mean(-1, keepdims=True)), X,
    ),
    "|sin(10⁴x)|": (
        (
            lambda x: (np.abs(np.sin(1e4 * x)), x),
            lambda dy, x: dy * 1e4 * np.cos(1e4 * x) * np.sign(np.sin(1e4 * x)),
        ), X,
    ),
    "mod 5e-7": ((lambda x: (np.mod(x, 5e-7), None), lambda dy, _: dy), X),
    "ReLU beside its kink": (
        (lambda x: ((x + np.abs(x)) / 2, x), lambda dy, x: dy * (x > 0)), np.array([-1e-4, 1e-4, 0.3, -0.5]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_STEPS)
def test_right_and_wrong_by_a_hundredth(name):
    (forward, backward), x = IN_STEPS[name]
    assert verdict((forward, backward), x) == RIGHT
    assert verdict((forward, scaled(backward, 1.01)), x) == WRONG


def test_what_stands_still_at_tiny_steps_is_not_certified():
    (forward, _), x = IN_STEPS["centred by a float32 mean"]
    assert verdict((forward, lambda dy, _: dy), x) not in (RIGHT, WRONG)


def test_both_plateaus_of_a_sum_that_rounds_are_seen():
    (forward, _), x = IN_STEPS["centred by a float32 mean"]
    upstream = (np.ones((4, 6)) * np.arange(6),)
    wide, tiny = plateaus(forward_alone(lambda x: forward(x)[0], x), "x", FIRST, [upstream])[0]
    assert wide.slope == pytest.approx(0 - 15 / 6, abs=1e-5)
    assert tiny.slope == pytest.approx(0, abs=1e-5)
    assert wide.width > 1e3 * tiny.width


def test_what_rounds_to_few_digits_is_neither_certified_nor_accused():
    half = (lambda x: (np.sin(x.astype(np.float16)).astype(np.float64), x), lambda dy, x: dy * np.cos(x))
    assert verdict(half, X) not in (RIGHT, WRONG)
    assert verdict((half[0], lambda dy, x: 2 * dy * np.cos(x)), X) == WRONG


def iterated(tolerance):
    """x = tanh(x)/2 + b, and the derivative by the implicit function theorem."""

    def forward(b):
        x = 0 * b
        for _ in range(500):
            before, x = x, 0.5 * np.tanh(x) + b
            if np.max(np.abs((x - before).real)) < tolerance:
                break
        return x, x

    return forward, lambda dy, x: dy / (1 - 0.5 * (1 - np.tanh(x) ** 2))


@pytest.mark.parametrize("tolerance", [1e-6, 1e-9, 1e-12])
def test_an_iteration_is_judged_beside_its_tolerance(tolerance):
    forward, backward = iterated(tolerance)
    row = only_row((forward, backward), normal(6))
    assert row.verdict == RIGHT
    assert ("tolerance=" in row.note) == (row.scaled_error > 1e-10)
    assert verdict((forward, scaled(backward, 1.001)), normal(6)) == WRONG


def test_a_row_of_zeros_under_a_small_eps():
    def forward(x):
        n = np.sqrt((x * x).sum(-1, keepdims=True))
        n = np.where(n.real > 1e-12, n, 1e-12)
        return x / n, (x / n, n)

    def backward(dy, cache):
        y, n = cache
        return (dy - y * (dy * y).sum(-1, keepdims=True)) / n

    x = X.copy()
    x[1] = 0
    assert verdict((forward, backward), x) == RIGHT
    assert verdict((forward, lambda dy, cache: dy / cache[1]), x) == WRONG


def test_the_slopes_of_equal_entries_are_judged_together():
    def share(dy, x):
        is_largest = x == x.max(-1, keepdims=True)
        return dy[:, None] * is_largest / is_largest.sum(-1, keepdims=True)

    def middle(dy, x):
        dx = np.zeros_like(x)
        np.put_along_axis(dx, np.argsort(x, axis=-1, kind="stable")[:, 1:2], dy[:, None], -1)
        return dx

    x = normal(4, 3)
    x[0] = 0.7
    maximum = lambda x: (x.max(-1), x)  # noqa: E731
    assert verdict((maximum, share), x) == KINK
    assert verdict((maximum, lambda dy, x: dy[:, None] * (x == x.max(-1, keepdims=True))), x) == WRONG
    assert verdict((lambda x: (np.sort(x, axis=-1)[:, 1], x), middle), x) == KINK


@pytest.mark.parametrize("complex_step", [True, False])
def test_a_forward_may_refuse_what_is_outside_of_its_domain(complex_step):
    def forward(p):
        if np.any((p.real < 0) | (p.real > 1)):
            raise KeyError(1)
        return -np.log(p) - np.log(1 - p), p

    backward = lambda dy, p: dy * (1 / (1 - p) - 1 / p)  # noqa: E731
    p = np.array([0.3, 0.9995, 0.4, 5e-4])
    assert verdict((forward, backward), p, complex_step=complex_step) == RIGHT
    assert verdict((forward, scaled(backward, 1.01)), p, complex_step=complex_step) == WRONG


@pytest.mark.parametrize("size", [1e14, 1e-17])
def test_large_and_tiny_numbers_are_judged(size):
    of_x = max(size, 1)  # tiny numbers are those of the output alone
    forward = lambda x: (size * np.tanh(x / of_x), x)  # noqa: E731
    for factor, expected in ((1, RIGHT), (1.01, WRONG)):
        backward = lambda dy, x, f=factor: f * size / of_x * dy / np.cosh(x / of_x) ** 2  # noqa: E731
        assert verdict((forward, backward), of_x * X) == expected


def test_a_gradient_of_what_underflows_proves_nothing():
    assert verdict((lambda x: (0 * x, x), lambda dy, x: 1e-42 * dy), X) == NOTHING


def test_an_infinite_slope_is_not_judged_and_an_infinite_claim_of_another_is_wrong():
    x = np.array([0.0, 0.4, 0.9])
    root = (lambda x: (np.cbrt(x), x), lambda dy, x: dy / (3 * np.cbrt(x) ** 2))
    square = (lambda x: (x * x, x), lambda dy, x: 2 * dy * x + np.where(x == 0, np.inf, 0))
    with np.errstate(all="ignore"):
        assert verdict(root, x) not in (RIGHT, WRONG)
        assert verdict(square, x) == verdict(square, x, complex_step=False) == WRONG


def test_infinite_entries_of_an_input_stay_where_they_are():
    mask = np.where(normal(4, 6, seed=1) > 0.5, -np.inf, 0.0)

    def forward(scores, mask):
        e = np.exp(scores + mask)
        p = e / e.sum(-1, keepdims=True)
        return p, p

    right = (forward, lambda dy, p: (softmax_slope(dy, p),) * 2)
    for options in ({}, {"complex_step": False, "elementwise": False}):
        report = gradcheck(right, X, mask, **options)
        assert report.ok, report
        assert any("not finite: not judged" in note for note in report.notes)
    wrong = gradcheck((forward, lambda dy, p: (softmax_slope(dy, p), 1.01 * softmax_slope(dy, p))), X, mask)
    assert [row.verdict for row in wrong.rows] == [RIGHT, WRONG]
