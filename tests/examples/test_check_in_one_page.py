"""The check on one page says what ``npf.gradcheck`` says."""

import numpy as np
import pytest

import npformer as npf
from examples.check_in_one_page import check, softmax_backward, softmax_forward
from npformer import functional as F  # noqa: N812
from tests.check.functions import normal

X, W, B = normal(3, 4), normal(4, 5), normal(5)
PAIRS = {
    "softmax": ((softmax_forward, softmax_backward), (X,)),
    "linear": ((F.linear_forward, F.linear_backward), (X, W, B)),
    "layer norm": ((lambda *x: F.layer_norm_forward(*x, 1e-5), F.layer_norm_backward), (X, normal(4), normal(4))),
    "gelu": ((F.gelu_forward, F.gelu_backward), (X,)),
    "refuses complex numbers": ((lambda x: (np.arctan2(x, 2.0), x), lambda dy, x: dy * 2 / (4 + x * x)), (X,)),
    "loses the imaginary part": ((lambda x: (np.abs(x), x), lambda dy, x: dy * np.sign(x)), (X,)),
}


def both(pair, inputs):
    """What the page says, once npf.gradcheck has said the same."""
    verdicts = check(*pair, *inputs)
    assert [row.ok for row in npf.gradcheck(pair, *inputs).rows] == verdicts
    return verdicts


@pytest.mark.parametrize("name", PAIRS)
def test_right_pairs_are_right(name):
    assert all(both(*PAIRS[name]))


@pytest.mark.parametrize("name", PAIRS)
def test_one_wrong_gradient_is_found(name):
    """The last gradient is a thousandth too large."""
    (forward, backward), inputs = PAIRS[name]

    def wrong(dy, cache):
        grads = backward(dy, cache)
        return (*grads[:-1], 1.001 * grads[-1]) if isinstance(grads, tuple) else 1.001 * grads

    assert both((forward, wrong), inputs) == [True] * (len(inputs) - 1) + [False]


def norm_without_the_mean_of_g(dy, cache):
    x_hat, r, gamma = cache
    g = dy * gamma
    dgamma, dbeta = np.sum(dy * x_hat, axis=0), np.sum(dy, axis=0)
    return r * (g - x_hat * np.mean(g * x_hat, axis=-1, keepdims=True)), dgamma, dbeta


def gelu_by_its_other_form(dy, cache):
    """The derivative of GELU's approximation by tanh, for the exact forward."""
    x, inner = cache.x, np.sqrt(2 / np.pi) * (cache.x + 0.044715 * cache.x**3)
    slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    return dy * (0.5 * (1 + np.tanh(inner)) + 0.5 * x * (1 - np.tanh(inner) ** 2) * slope)


#: Mistakes that people make: the pair, its wrong backward, and whether each gradient is right nevertheless.
MISTAKES = {
    "softmax's sum forgotten": ("softmax", lambda dy, y: y * dy, [False]),
    "softmax's sum over the batch": ("softmax", lambda dy, y: y * (dy - (dy * y).sum(0)), [False]),
    "a mean of the bias' gradient": (
        "linear", lambda dy, cache: (dy @ cache.weight.T, cache.x.T @ dy, dy.mean(0)), [True, True, False]
    ),
    "LayerNorm's first mean forgotten": ("layer norm", norm_without_the_mean_of_g, [False, True, True]),
    "another form of GELU": ("gelu", gelu_by_its_other_form, [False]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_that_people_make_are_found(mistake):
    name, wrong, expected = MISTAKES[mistake]
    (forward, _), inputs = PAIRS[name]
    assert both((forward, wrong), inputs) == expected


def test_a_gradient_of_another_shape_is_wrong(capsys):
    assert check(softmax_forward, lambda dy, y: softmax_backward(dy, y)[0], X) == [False]
    assert "WRONG  error inf" in capsys.readouterr().out
