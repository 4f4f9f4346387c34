"""What a backward must do beside being right: each breach is one problem in plain words, and the check is not ok."""

import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.report import RIGHT
from tests.check.functions import normal
from tests.check.own_code import line_of

X = normal(3, 4)
THIS = Path(__file__).name


def cube(x):
    return x**3, x.copy()


def slope(dy, x):
    return dy * 3 * x**2


CALLS = itertools.count()


def changing_dy(dy, x):
    dy *= 3 * x**2
    return dy


def changing_cache(dy, x):
    np.square(x, out=x)
    return dy * 3 * x


def changing_input_late(dy, x):
    """The cache is the input itself."""
    dx = slope(dy, x)
    x[...] = 0
    return dx


def raw_memory(dy, x):
    """As a kernel that is given a pointer and a size reads it."""
    base = dy if dy.base is None else dy.base
    flat = np.resize(base.ravel(), dy.size)
    return slope(flat.reshape(dy.shape), x)


def trusting_strides(dy, x):
    if dy.strides[0] == 0:
        raise ValueError("stride 0")
    return slope(dy, x)


#: What a breach is called -> the pair, and the problem.
BREACHES = {
    "dithered": ((lambda x: (x**3 * (1 + 1e-7 * (next(CALLS) % 2)), x), slope),
        r"forward is not deterministic: two calls at the same inputs differ by 1\.0e-07 of the "
        r"largest output; fix its seed, or pass what it draws as an input"),
    "dy": ((cube, changing_dy),
        r"backward changes dy, the upstream gradient, which other code still needs; work on a copy"),
    "cache": ((cube, changing_cache),
        r"a second backward with the same cache gives another gradient of x "
        r"\(\d\.\de[+-]\d\d of its size away\): backward changes its cache"),
    "emptied": ((lambda x: (x**3, [x]), lambda dy, cache: slope(dy, cache.pop())),
        r"a second backward with the same cache fails: IndexError: pop from empty list"),
    "input late": ((lambda x: (x**3, x), changing_input_late),
        r"forward or backward changes its input x; work on a copy"),
    # right at every dy that is drawn, and not at the sum of two
    "clipped": ((cube, lambda dy, x: slope(np.clip(dy, -2.7, 2.7), x)),
        r"backward is not linear in dy: its gradient of x for p \+ q differs from those for p and q "
        r"together by \d\.\de-\d\d of its size"),
    "order": ((cube, lambda dy, x: slope(dy.ravel(order="K").reshape(dy.shape), x)),
        r"backward gives another gradient of x for a dy in Fortran order, as a transposed array "
        r"is, \d\.\de[+-]\d\d of its size away"),
    "nan": ((cube, lambda dy, x: slope(dy, x) if dy.flags.c_contiguous else np.full_like(x, np.nan)),
        r"backward gives another gradient of x for a dy with gaps between its elements \(not "
        r"contiguous\), inf of its size away"),
    "raw": ((cube, raw_memory),
        r"backward gives another gradient of x for a dy with gaps between its elements \(not "
        r"contiguous\), \d\.\de[+-]\d\d of its size away"),
    "strides": ((cube, trusting_strides),
        r"backward fails for a dy that is broadcast \(stride 0, read-only\): "
        r"ValueError: stride 0"),
    # a scratch that is broadcast dy itself, scaled in place where that is allowed
    "read-only": ((cube, lambda dy, x: slope(dy * (1 if dy.flags.writeable else 2), x)),
        r"backward gives another gradient of x for a dy that is broadcast \(stride 0, "
        r"read-only\), 1\.0e\+00 of its size away"),
}  # fmt: skip


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_one_problem(breach):
    """And the gradients themselves stay right."""
    pair, text = BREACHES[breach]
    report = gradcheck(pair, X)
    (problem,) = report.problems
    assert re.fullmatch(text, problem), problem
    assert not report.ok
    if breach in ("dy", "cache", "emptied", "raw", "strides", "read-only"):
        assert report.rows[0].verdict == RIGHT


def by_column(x):
    centred = x - x.mean(axis=0)
    std = np.sqrt((centred**2).mean(axis=0))
    return centred / std, (centred / std, std)


def by_column_back(dy, cache):
    """Rounding alone if all rows of dy are the same."""
    y, std = cache
    return (dy - dy.mean(axis=0) - y * (dy * y).mean(axis=0)) / std


@pytest.mark.parametrize(
    "pair",
    [(cube, slope), (lambda x: (x**3, x), slope), (by_column, by_column_back)],
    ids=["copy", "input as cache", "cancelling"],
)
def test_what_keeps_to_all_that_has_no_problem(pair):
    report = gradcheck(pair, np.random.default_rng(0).normal(size=(13, 9)))
    assert (report.ok, report.problems, report.notes) == (True, (), ())


def branching(x, mode="cube", mask=None):
    if mode == "cube":
        y = x * x * x
    else:
        y = x**2
        y = y / 2
    if mask is not None:
        y = np.where(mask, y, 0)
    for _ in ():
        y = y + 1
    return y, x


def places(*texts):
    """What the note says of branches that begin with these lines."""
    return ", ".join(f"branching ({THIS}, line {line_of(branching, text)})" for text in texts)


def test_branches_that_were_not_entered_are_named():
    report = gradcheck((branching, slope), X)
    expected = f"not entered at this point, so not checked: {places('x**2', 'np.where', 'y + 1')}"
    assert (report.ok, report.notes) == (True, (expected,))
    masked = gradcheck((branching, lambda dy, x: slope(dy, x) * (X > 0)), X, mask=X > 0)
    assert masked.notes == (f"not entered at this point, so not checked: {places('x**2', 'y + 1')}",)


def nesting(x):
    if x.size:
        scale: list  # no line that runs
        scale = [2 * factor for factor in (0.5, 1.0)]

    def doubled(z):
        if z.size:
            return z * scale[1]
        return z / 0

    def factors():
        for factor in scale:
            yield 1 * factor
        if not scale:
            yield 7.0

    return sum(doubled(x) * factor for factor in factors()), None


def test_code_inside_functions_and_generators_of_the_forward_is_seen_to_run():
    report = gradcheck((nesting, lambda dy, _: 6 * dy), X)
    missed = f"nesting ({THIS}, line {line_of(nesting, 'yield 7.0')})"
    assert (report.ok, report.notes) == (True, (f"not entered at this point, so not checked: {missed}",))


def test_a_tracer_that_was_there_is_put_back():
    """After an error in forward, too: a debugger or a measurement of coverage goes on."""

    def tracer(frame, event, arg):
        return None

    def failing(x):
        if sys.gettrace() not in (tracer, None):
            raise ArithmeticError("only when traced")
        return branching(x)

    before = sys.gettrace()
    try:
        sys.settrace(tracer)
        gradcheck((branching, slope), X)
        after = sys.gettrace()
        with pytest.raises(ArithmeticError, match="only when traced"):
            gradcheck((failing, slope), X)
        after_error = sys.gettrace()
    finally:
        sys.settrace(before)
    assert (after, after_error) == (tracer, tracer)


def test_inputs_that_are_passed_on_are_named():
    pair = (lambda x, ids, p, kind, rest: (x[ids] * p, x.shape), lambda dy, shape: np.zeros(shape) + 0.5 * dy)
    report = gradcheck(pair, X, np.arange(3), 0.5, "rows", None)
    assert report.notes == ("passed on unchecked: ids (int64 array), p (float 0.5)",)
    assert report.ok


@pytest.mark.parametrize(
    "backward",
    [
        lambda dy, x: slope(np.clip(dy, -10, 10), x),
        lambda dy, x: slope(np.where(np.abs(dy) < 1e-4, 0, dy), x),
        lambda dy, x: slope(dy / np.abs(dy).max(-1, keepdims=True) * np.abs(dy).max(-1, keepdims=True), x),
    ],
    ids=["clipped", "small ones dropped", "scaled by rows"],
)
def test_a_dy_may_be_large_or_tiny_or_have_rows_of_zeros(backward):
    with np.errstate(all="ignore"):
        report = gradcheck((cube, backward), X)
    assert [row.verdict for row in report.rows] == [RIGHT]
    assert "not linear in dy" in report.problems[0]


def exponential(x):
    """The matrix exponential by scaling and squaring."""
    squarings = int(np.ceil(np.log2(np.linalg.norm(x, 1)))) + 4
    term = total = np.eye(len(x))
    for k in range(1, 14):
        term = term @ x / (k * 2.0**squarings)
        total = total + term
    return np.linalg.matrix_power(total, 2**squarings)


@pytest.mark.parametrize(("bound", "expected"), [(np.inf, ()), (1e6, ("not linear in dy",))])
def test_a_routine_with_dy_and_x_in_one_matrix_loses_digits_of_x_by_a_large_dy(bound, expected):
    """exp of [xᵀ dy; 0 xᵀ] has the gradient in its corner; more squarings are made for a larger dy."""

    def backward(dy, x):
        zero, dy = np.zeros(x.shape), np.clip(dy, -bound, bound)
        return exponential(np.block([[x.T, dy], [zero, x.T]]))[: len(x), len(x) :]

    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(5, 5))
        report = gradcheck((lambda x: (exponential(x), x), backward), x, explain=False)
        assert report.rows[0].verdict == RIGHT
        assert len(report.problems) == len(expected)
        assert all(map(str.__contains__, report.problems, expected))
