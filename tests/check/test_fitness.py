"""The complex step must prove itself: where NumPy loses or flips an imaginary part it is left out, and that is said."""

import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from npformer.check import gradcheck
from npformer.check.report import WRONG
from tests.check.functions import l2_norm, layer_norm, normal, row_mean, tanh, verdict

X = normal(3, 5)
SQUARE = normal(3, 3, seed=1)
POSITIVE = SQUARE @ SQUARE.T + 3 * np.eye(3)


STATISTICS = {
    "np.var": lambda x: np.var(x, axis=-1, keepdims=True),
    "std()": lambda x: x.std(axis=-1, keepdims=True) ** 2,
    "np.absolute": lambda x: np.mean(np.abs(x - row_mean(x)) ** 2, axis=-1, keepdims=True),
}


def note_of(report, call, function):
    """The one note of a report, which names the call and a line that function has."""
    (note,) = report.notes
    lines, first = inspect.getsourcelines(function)
    file = Path(inspect.getsourcefile(function)).name
    assert any(f" at {call} ({file}, line {line})" in note for line in range(first, first + len(lines))), note
    assert note.startswith("the complex step was dropped: it ")
    assert note.endswith("; differences alone decide")
    return note


def size(factor=1):
    return lambda x: (np.abs(x), np.sign(x)), lambda dy, sign: factor * dy * sign


def cholesky(factor=1):
    """dA = L⁻ᵀ·Φ(LᵀdL)·L⁻¹ with Φ the lower triangle, its diagonal halved; its symmetric part is what is meant."""

    def forward(a):
        lower = np.linalg.cholesky(a)
        return lower, lower

    def backward(dy, lower):
        inner = np.tril(lower.T @ np.tril(dy))
        inverse = np.linalg.inv(lower)
        return factor * inverse.T @ (inner - np.diag(np.diag(inner)) / 2) @ inverse

    return forward, backward


def slogdet(factor=1):
    return lambda a: (np.linalg.slogdet(a)[1], np.linalg.inv(a).T), lambda dy, inverse: factor * dy * inverse


SYMMETRIC = {"structure": "symmetric"}
#: (the call that breaks the complex step, the function that has it, pairs by a factor in the backward, x, options)
CALLS = [
    *((call, statistic, partial(layer_norm, statistic), X, {}) for call, statistic in STATISTICS.items()),
    ("np.linalg.norm", l2_norm, l2_norm, X, {}),
    ("np.absolute", size, size, X, {}),
    ("np.linalg.cholesky", cholesky, cholesky, POSITIVE, SYMMETRIC),
    ("np.linalg.slogdet", slogdet, slogdet, POSITIVE, SYMMETRIC),
]


@pytest.mark.parametrize(("call", "where", "make", "x", "options"), CALLS)
def test_a_call_that_the_complex_step_does_not_survive(call, where, make, x, options):
    """Right is right whatever a variance is computed by, and what is wrong is wrong all the same."""
    report = gradcheck(make(), x, **options)
    assert report.ok, report
    note_of(report, call, where)
    for factor in (0, 1.001):
        assert verdict(make(factor), x, explain=False, **options) == WRONG


def test_a_fit_forward_has_no_note():
    report = gradcheck(tanh(), X)
    assert (report.ok, report.notes) == (True, ())


@pytest.mark.parametrize("error", [TypeError("no complex numbers"), AssertionError(), RuntimeError("a\nb")])
def test_whatever_a_foreign_forward_raises_at_complex_numbers_it_is_unfit_and_no_error(error):
    def forward(x):
        if np.iscomplexobj(x):
            raise error
        return np.tanh(x), np.tanh(x)

    report = gradcheck((forward, tanh()[1]), X)
    (note,) = (note for note in report.notes if "complex step" in note)
    assert report.ok, report
    assert f"cannot be asked: {type(error).__name__}: " in note
    assert f"at forward ({Path(__file__).name}, line " in note
    assert "\n" not in note


def test_a_cast_to_real_is_seen():
    def forward(x):
        return np.tanh(x.astype(np.float64)), np.tanh(x)

    report = gradcheck((forward, tanh()[1]), X)
    assert report.ok, report
    note_of(report, "astype(float64)", forward)


def test_where_differences_cannot_tell_a_call_that_loses_imaginary_parts_is_enough():
    """|x| beside its kink: the complex step says 0 there, and must not be believed."""
    report = gradcheck(size(), np.array([0.5, 3e-9, -0.7]))
    assert WRONG not in {row.verdict for row in report.rows}
    assert "may be wrong here" in note_of(report, "np.absolute", size)


def test_a_call_that_only_the_second_input_goes_through_is_named():
    def forward(a, b):
        return a * np.abs(b), (a, b)

    report = gradcheck((forward, lambda dy, c: (dy * np.abs(c[1]), dy * c[0] * np.sign(c[1]))), X, X.copy())
    assert report.ok, report
    note_of(report, "np.absolute", forward)
