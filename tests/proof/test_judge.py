"""Verdicts: what each witness can bring about, and what is looked at before anything is called wrong."""

import numpy as np
import pytest

import npformer as npf
from npformer.errors import ConfigError, ShapeError
from npformer.layers import EncoderLayer, LayerNorm
from npformer.layers.parameter import Parameter
from npformer.proof import gradcheck
from npformer.proof.judge import MOST_SWEEPS
from npformer.proof.report import KINK, NOTHING, RIGHT, UNCLEAR, WRONG

X = np.array([0.6, -0.8, 1.1])


def tanh_pair(factor=1.0):
    return lambda x: (np.tanh(x), np.tanh(x)), lambda dy, y: factor * dy * (1 - y * y)


def relu_pair(claim=1.0):
    return lambda x: (np.where(x.real > 0, x, 0) + 0.1 * x, x), lambda dy, x: claim * (dy * (x > 0) + 0.1 * dy)


def in_float32(pair):
    forward, backward = pair
    return lambda x: (forward(x.astype(np.float32))[0].astype(np.float64), forward(x)[1]), backward


def verdict(pair, x=X, **options):
    (row,) = gradcheck(pair, x, **options).rows
    return row.verdict


WITNESSES = pytest.mark.parametrize("options", [{}, {"complex_step": False}], ids=["complex", "central"])


@WITNESSES
@pytest.mark.parametrize("explain", [True, False])
@pytest.mark.parametrize(("factor", "expected"), [(1, RIGHT), (1.001, WRONG), (2, WRONG), (-1, WRONG), (np.nan, WRONG)])
def test_right_and_wrong(factor, expected, explain, options):
    assert verdict(tanh_pair(factor), explain=explain, **options) == expected


@pytest.mark.parametrize(("complex_step", "size"), [(True, 1e-13), (False, 5e-13)])
def test_of_what_is_right_too_the_largest_error_is_named(complex_step, size):
    off = 1 + size * np.array([1, 90, 2])
    pair = (lambda x: (np.tanh(x), x), lambda dy, x: dy * (1 - np.tanh(x) ** 2) * off)
    (row,) = gradcheck(pair, np.array([0.6, 0.5, 0.4]), complex_step=complex_step).rows
    assert (row.verdict, row.worst_index) == (RIGHT, (1,))


@pytest.mark.parametrize("tolerance", [1e-10, 6e-8, 1e-6])
def test_beside_a_kink_what_the_complex_step_lets_pass_is_right(tolerance):
    """Between h/2 and h, where a second step size would have said nothing."""

    def bent(x):
        return np.sin(97 * x) / 97 + np.where(x.real > 7e-6, 300 * (x - 7e-6) * np.array([1.0, 0.0]), 0), x

    def slope(dy, x):
        return dy * np.cos(97 * x) * (1 + 0.99 * tolerance)

    assert verdict((bent, slope), np.array([0.0, 0.2]), tolerance=tolerance) == RIGHT


def test_a_kink_at_the_point():
    at_a_kink = np.array([0.5, 0.0, -0.7])
    assert verdict(relu_pair(), at_a_kink, complex_step=False) == KINK
    assert verdict(relu_pair(), at_a_kink) == KINK  # the complex step picked one side; central differences the mean
    assert verdict(relu_pair(), at_a_kink, complex_step=False, explain=False) != RIGHT


def test_a_wrong_element_cannot_hide_behind_another_kink():
    """Its claim is what a large step says there; the element beside it is right and looks worse."""
    x = np.array([3e-6, 4e-6, 0.5])
    claim = np.array([1.0, 0.9, 1.0])
    assert verdict(relu_pair(), x, complex_step=False) == RIGHT
    (row,) = gradcheck(relu_pair(claim), x, complex_step=False).rows
    assert (row.verdict, row.worst_index) == (WRONG, (1,))


def test_too_many_doubtful_places_are_not_passed():
    x = 3e-9 * (1 + np.random.default_rng(0).random(MOST_SWEEPS + 5))
    x[0] = 1  # so that steps are not those of such small numbers
    (row,) = gradcheck(relu_pair(), x, complex_step=False).rows
    assert row.verdict in (UNCLEAR, KINK)
    few = np.concatenate([[1.0], 3e-6 * (1 + np.random.default_rng(0).random(MOST_SWEEPS + 5))])
    assert verdict(relu_pair(), few, complex_step=False) == RIGHT  # smaller steps fit beside these


@pytest.mark.parametrize("seed", range(5))
def test_float32_inside_cannot_tell(seed):
    x = np.random.default_rng(seed).normal(size=4)
    (row,) = gradcheck(in_float32(tanh_pair()), x, complex_step=False, seed=seed).rows
    assert row.verdict == UNCLEAR
    assert row.note.startswith("by a sweep of h, which settles to ")
    assert verdict(in_float32(tanh_pair()), x, complex_step=False, explain=False) != RIGHT


def test_explain_false_gives_no_diagnosis():
    said = [gradcheck(tanh_pair(2), X, explain=explain).rows[0] for explain in (True, False)]
    assert [row.verdict for row in said] == [WRONG, WRONG]
    assert [bool(row.diagnosis) for row in said] == [True, False]


@pytest.mark.parametrize("tolerance", [0, -1e-3, 0.11, 1.0, float("nan")])
def test_a_tolerance_that_lets_anything_pass_is_refused(tolerance):
    with pytest.raises(ConfigError, match=r"^tolerance: expected 0 < tolerance <= 0\.1, got .*; with a wider one"):
        gradcheck(tanh_pair(), X, tolerance=tolerance)


@WITNESSES
def test_the_tolerance_counts(options):
    assert verdict(tanh_pair(1.001), tolerance=1e-2, **options) == RIGHT
    assert verdict(tanh_pair(1.001), tolerance=1e-4, **options) == WRONG


def test_length_one_is_refused_unless_allowed():
    for shape in ((1, 3), (2, 1, 3), (1, 2, 3)):
        with pytest.raises(
            ShapeError, match=r"^x: expected at least 2 along axis \d, got shape .*allow_length_one=True"
        ):
            gradcheck(tanh_pair(), np.full(shape, 0.3) + np.arange(3))
    assert verdict(tanh_pair(), X[None], allow_length_one=True) == RIGHT


def test_constant_inputs_prove_nothing():
    for pair, expected in ((tanh_pair(), NOTHING), (tanh_pair(2), WRONG)):
        assert verdict(pair, np.ones(3)) == expected


@pytest.fixture
def make(numpy64):
    return {
        "LayerNorm": lambda: LayerNorm(4, backend=numpy64),
        "EncoderLayer": lambda: EncoderLayer(4, 2, 6, backend=numpy64),
    }


class Forgetful(LayerNorm):
    """Its backward forgets γ: invisible as long as γ is 1."""

    def backward(self, dy, cache):
        return super().backward(dy, cache) / self.gamma.data


@pytest.mark.parametrize("name", ["LayerNorm", "EncoderLayer"])
def test_a_fresh_layer_is_checked_at_a_generic_point_and_left_as_it_was(name, make):
    layer = make[name]()
    before = {name: (p.data, p.data.copy(), p.grad, p.grad.copy()) for name, p in layer.named_parameters()}
    seen = []
    forward = layer.forward
    layer.forward = lambda *a, **k: (seen.extend(p.data.copy() for _, p in layer.named_parameters()), forward(*a, **k))[
        1
    ]
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    assert gradcheck(layer, x, elementwise=False).ok
    assert all(np.ptp(data) > 0 for data in seen)
    for name, p in layer.named_parameters():
        data, values, grad, gradients = before[name]
        assert np.shares_memory(p.data, data)
        assert np.shares_memory(p.grad, grad)
        np.testing.assert_array_equal(p.data, values)
        np.testing.assert_array_equal(p.grad, gradients)


def test_a_mistake_that_gain_one_hides_is_found(numpy64):
    assert not gradcheck(Forgetful(4, backend=numpy64), np.random.default_rng(0).normal(size=(2, 3, 4))).ok


def test_a_name_given_twice_is_refused(numpy64):
    class Double(LayerNorm):
        def named_parameters(self, prefix=""):
            yield from super().named_parameters(prefix)
            yield "gamma", Parameter("gamma", np.ones(4))

    with pytest.raises(
        ConfigError, match=r"^named_parameters: expected each name once, got 'gamma' twice; rename one$"
    ):
        gradcheck(Double(4, backend=numpy64), np.random.default_rng(0).normal(size=(2, 3, 4)))


def test_gradcheck_is_public():
    assert npf.gradcheck is gradcheck
