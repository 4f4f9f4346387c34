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


def test_a_gradient_of_another_shape_is_wrong(capsys):
    assert check(softmax_forward, lambda dy, y: softmax_backward(dy, y)[0], X) == [False]
    assert "WRONG  error inf" in capsys.readouterr().out
