"""The complex step must prove itself: where NumPy loses or flips an imaginary part it is left out, and that is said."""

import inspect
from pathlib import Path

import numpy as np
import pytest

from npformer.proof import gradcheck
from npformer.proof.report import RIGHT, WRONG

EPS = 1e-5
X = np.random.default_rng(0).normal(size=(3, 5))
SQUARE = np.random.default_rng(1).normal(size=(3, 3))
POSITIVE = SQUARE @ SQUARE.T + 3 * np.eye(3)


def layer_norm(statistic, has_x_hat_term=True):
    """LayerNorm without γ and β; statistic(x) is its variance."""

    def forward(x):
        r = 1 / np.sqrt(statistic(x) + EPS)
        x_hat = (x - x.mean(axis=-1, keepdims=True)) * r
        return x_hat, (x_hat, r)

    def backward(dy, cache):
        x_hat, r = cache
        along = x_hat * np.mean(dy * x_hat, axis=-1, keepdims=True) if has_x_hat_term else 0
        return r * (dy - dy.mean(axis=-1, keepdims=True) - along)

    return forward, backward


def by_method(x):
    return x.var(axis=-1, keepdims=True)


STATISTICS = {
    "np.var": lambda x: np.var(x, axis=-1, keepdims=True),
    "var()": by_method,
    "np.std": lambda x: np.std(x, axis=-1, keepdims=True) ** 2,
    "std()": lambda x: x.std(axis=-1, keepdims=True) ** 2,
    "np.absolute": lambda x: np.mean(np.abs(x - x.mean(axis=-1, keepdims=True)) ** 2, axis=-1, keepdims=True),
}


def note_of(report, call, function):
    """The one note of a report, which names the call and a line of this file that function has."""
    (note,) = report.notes
    lines, first = inspect.getsourcelines(function)
    places = [f" at {call} ({Path(__file__).name}, line {line})" for line in range(first, first + len(lines))]
    assert any(place in note for place in places), note
    assert note.startswith("the complex step was dropped: it ")
    assert note.endswith("; differences alone decide")
    return note


@pytest.mark.parametrize("call", STATISTICS)
def test_right_layer_norm_is_right_whatever_its_variance_is_computed_by(call):
    report = gradcheck(layer_norm(STATISTICS[call]), X)
    assert report.ok, report
    note_of(report, call, STATISTICS[call])


@pytest.mark.parametrize("call", STATISTICS)
def test_a_missing_term_is_wrong_all_the_same(call):
    (row,) = gradcheck(layer_norm(STATISTICS[call], has_x_hat_term=False), X, explain=False).rows
    assert row.verdict == WRONG


def l2_norm(factor=1):
    def forward(x):
        n = np.linalg.norm(x, axis=-1, keepdims=True)
        return x / n, (x / n, n)

    def backward(dy, cache):
        y, n = cache
        return (dy - factor * y * np.sum(dy * y, axis=-1, keepdims=True)) / n

    return forward, backward


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


def eigvalsh(factor=1):
    def forward(a):
        return np.linalg.eigvalsh(a), np.linalg.eigh(a.real)[1]

    return forward, lambda dy, v: factor * (v * dy) @ v.T


def slogdet(factor=1):
    return lambda a: (np.linalg.slogdet(a)[1], np.linalg.inv(a).T), lambda dy, inverse: factor * dy * inverse


OTHERS = {
    "np.linalg.norm": (l2_norm, X, {}),
    "np.absolute": (size, X, {}),
    "np.linalg.cholesky": (cholesky, POSITIVE, {"structure": "symmetric"}),
    "np.linalg.eigvalsh": (eigvalsh, POSITIVE, {"structure": "symmetric"}),
    "np.linalg.slogdet": (slogdet, POSITIVE, {"structure": "symmetric"}),
}


@pytest.mark.parametrize("call", OTHERS)
def test_other_calls_that_the_complex_step_does_not_survive(call):
    make, x, options = OTHERS[call]
    report = gradcheck(make(), x, **options)
    assert report.ok, report
    note_of(report, call, make)
    assert gradcheck(make(1.001), x, explain=False, **options).rows[0].verdict == WRONG


def test_a_fit_forward_has_no_note():
    report = gradcheck((lambda x: (np.tanh(x), np.tanh(x)), lambda dy, y: dy * (1 - y * y)), X)
    assert (report.ok, report.notes) == (True, ())


@pytest.mark.parametrize(
    "error", [TypeError("no complex numbers"), ValueError(""), AssertionError(), KeyError("c"), RuntimeError("a\nb")]
)
def test_whatever_a_foreign_forward_raises_at_complex_numbers_it_is_unfit_and_no_error(error):
    def forward(x):
        if np.iscomplexobj(x):
            raise error
        return np.tanh(x), x

    report = gradcheck((forward, lambda dy, x: dy * (1 - np.tanh(x) ** 2)), X)
    (note,) = (note for note in report.notes if "complex step" in note)
    assert report.ok, report
    assert f"cannot be asked: {type(error).__name__}: " in note
    assert f"at forward ({Path(__file__).name}, line " in note
    assert "\n" not in note


def test_a_cast_to_real_is_seen():
    def forward(x):
        return np.tanh(x.astype(np.float64)), x

    report = gradcheck((forward, lambda dy, x: dy * (1 - np.tanh(x) ** 2)), X)
    assert report.ok, report
    note_of(report, "astype(float64)", forward)


@pytest.mark.parametrize("complex_step", [True, False])
def test_a_constant_mistyped_by_6e_9_is_wrong_with_either_witness(complex_step):
    """As √(2/π) to eight digits; no one is told to switch anything off."""
    right, typed = 0.7978845608028654, 0.7978845656

    def forward(x):
        return np.tanh(right * x), x

    def backward(dy, x):
        return dy * (1 - np.tanh(right * x) ** 2) * typed

    report = gradcheck((forward, backward), X, complex_step=complex_step)
    assert report.rows[0].verdict == WRONG
    assert "complex_step" not in str(report)
    assert report.rows[0].ratio == pytest.approx(1 + 6e-9, abs=1e-9)
    assert not report.notes


def test_a_unit_roundoff_more_than_the_true_constant_is_right():
    pair = (
        lambda x: (np.tanh(0.79788 * x), x),
        lambda dy, x: dy * (1 - np.tanh(0.79788 * x) ** 2) * 0.7978800000000001,
    )
    assert gradcheck(pair, X).rows[0].verdict == RIGHT


def test_where_differences_cannot_tell_a_call_that_loses_imaginary_parts_is_enough():
    """|x| beside its kink: the complex step says 0 there, and must not be believed."""
    report = gradcheck(size(), np.array([0.5, 3e-9, -0.7]))
    assert WRONG not in {row.verdict for row in report.rows}
    assert "may be wrong here" in note_of(report, "np.absolute", size)
